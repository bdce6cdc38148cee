/* main.c - the command `quern`: finds the command named first and hands it the rest. */
#include "base/base.h"
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name, *about;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"train", "train a character-level GPT on a text and save it", command_train},
    {"generate", "continue a text by a trained model, a GGUF file or folder", command_generate},
    {"chat", "talk with a language model of a GGUF file or folder", command_chat},
    {"perplexity", "how well such a model foresees a text", command_perplexity},
    {"serve", "answer requests over HTTP by such a model", command_serve},
    {"export", "write a trained model as plain C", command_export},
    {"tune", "look for faster schedules of kernels on this machine", command_tune},
    {"wisdom", "show what tuning has found, or carry it elsewhere", command_wisdom},
    {"replay", "run a recorded program again and compare", command_replay},
    {"info", "list the tensors and metadata of a file", command_info},
    {"convert", "write the tensors of a file as another kind, or in blocks", command_convert},
    {"run", "run a model in the ONNX format on .npy files", command_run},
    {"bench", "time a model in the ONNX format on random inputs", command_bench},
    {"view", "show how a value of a recording or model is computed", command_view},
    {"devices", "list the devices of this machine", command_devices},
    {"machine", "show the machine that schedules are made for", command_machine},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *out) {
    fprintf(out, "usage: quern COMMAND [options]\n\ncommands:\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].about);
    fprintf(out, "\nquern COMMAND --help shows a command's options.\n"
                 "QN_DEVICE, QN_THREADS and QN_DEBUG set the device, its threads, and what is "
                 "logged; see quern(1).\n");
}

int cli_failed(const char *command, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "quern %s: ", command);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return EXIT_FAILED;
}

double cli_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cli_on_interrupt(void (*handler)(int signal_number)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESETHAND | SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Files have an end; pipes and devices may have none, so that much is read of them. */
static const size_t most_of_a_pipe = (size_t)1 << 28;

static bool is_regular(FILE *file) {
    struct stat s;
    return fstat(fileno(file), &s) == 0 && S_ISREG(s.st_mode);
}

char *cli_read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t room = 0, most = file && is_regular(file) ? SIZE_MAX : most_of_a_pipe;
    *size = 0;
    while (file && !feof(file) && !ferror(file)) {
        if (*size > most) {
            errno = EFBIG;
            break;
        }
        if (*size + 1 >= room) {
            room = room ? room * 2 : 1 << 16;
            char *grown = realloc(text, room);
            if (!grown) break;
            text = grown;
        }
        *size += fread(text + *size, 1, room - 1 - *size, file);
    }
    bool fine = file && feof(file) && !ferror(file);
    int because = errno ? errno : ENOMEM;
    if (file) fclose(file);
    if (fine) text[*size] = 0;
    if (fine) return text;
    free(text);
    errno = because;
    return NULL;
}

/* As the writers do it: by a file of its own beside the place, which goes again. */
bool cli_may_write(const char *command, const char *path) {
    char end[FOLDER_PATH], folder[FOLDER_PATH];
    const char *name, *why = "its links lead nowhere";
    if (!path) return true;
    bool found = file_resolve(path, end);
    int at = found ? file_folder(end, folder, &name) : -1;
    if (found) why = "its folder cannot be opened";
    file_write_to w;
    bool fine = at >= 0 && file_begin(&w, at, name, FILE_OVER_FILE, 0666, &why);
    if (!fine) cli_failed(command, "%s: %s: %s", path, why, strerror(errno));
    if (fine) file_drop(&w);
    if (at >= 0) close(at);
    return fine;
}

bool cli_write_file(const char *command, const char *path, const void *data, size_t size) {
    char end[FOLDER_PATH], folder[FOLDER_PATH];
    const char *name, *why = "its links lead nowhere";
    bool found = file_resolve(path, end);
    int at = found ? file_folder(end, folder, &name) : -1;
    if (found) why = "its folder cannot be opened";
    bool fine =
        at >= 0 && folder_replace(at, name, FILE_OVER_FILE, 0666, (file_content){data, size}, &why);
    if (!fine) cli_failed(command, "%s: %s: %s", path, why, strerror(errno));
    if (at >= 0) close(at);
    return fine;
}

/* What could not be written is a failure, whatever the command thinks. */
static int output_written(int status) {
    bool fine = !ferror(stdout);
    if (!fclose(stdout) && fine) return status;
    fprintf(stderr, "quern: standard output: %s\n", strerror(errno ? errno : EIO));
    return status == EXIT_DONE ? EXIT_FAILED : status;
}

qn_ctx *cli_open(const char *command, const char *device) {
    return cli_open_threads(command, device, 0);
}

qn_ctx *cli_open_threads(const char *command, const char *device, int threads) {
    char why[512];
    qn_options options =
        QN_OPTIONS(.device = device, .threads = threads, .error = why, .error_size = sizeof why);
    qn_ctx *qn = qn_open(&options);
    if (!qn) cli_failed(command, "%s; see: quern devices", why);
    return qn;
}

static int run(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return EXIT_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("quern %s\n", qn_version());
        return EXIT_DONE;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2);
    if (*name) fprintf(stderr, "quern: no command \"%s\"\n", name);
    print_usage(stderr);
    return EXIT_USAGE;
}

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); /* a file past its greatest size is an error that is said */
    return output_written(run(argc, argv));
}
