/* without.c - where libmicrohttpd is not installed the command is built without a server, and says
 * so. */
#include "cli/cli.h"
#include "cli/serve/serve.h"

bool http_known(void) {
    return false;
}

http_server *http_open(serve_queue *q, const serve_options *o) {
    (void)q;
    (void)o;
    cli_failed("serve", "this command was built without libmicrohttpd, which tools/setup.sh "
                        "installs");
    return NULL;
}

void http_close(http_server *h) {
    (void)h;
}
