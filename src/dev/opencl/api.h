/* api.h - the functions of OpenCL 1.2 that we call, with our own prototypes.
 *
 * X(name, returns, parameters): cl<name> is looked up in the shared library when a device is
 * opened. No header or import library of OpenCL is needed to build. Numbers are the standard's. */
#ifndef QN_OPENCL_API_H
#define QN_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct cl_platform *cl_platform;
typedef struct cl_device *cl_device;
typedef struct cl_context *cl_context;
typedef struct cl_queue *cl_queue;
typedef struct cl_memory *cl_memory;
typedef struct cl_program *cl_program;
typedef struct cl_kernel *cl_kernel;
typedef void (*cl_context_callback)(const char *text, const void *info, size_t size, void *user);
typedef void (*cl_build_callback)(cl_program program, void *user);

enum cl_result {
    CL_DEVICE_NOT_FOUND = -1,
    CL_NO_OBJECT_MEMORY = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_BUILD_FAILURE = -11,
    CL_INVALID_BUFFER_SIZE = -61
};
enum cl_device_type { CL_CPU = 2, CL_GPU = 4, CL_ACCELERATOR = 8 };
#define CL_ALL 0xffffffffu
enum cl_device_info {
    CL_DEVICE_TYPE = 0x1000,
    CL_COMPUTE_UNITS = 0x1002,
    CL_GROUP_MEMBERS = 0x1004,
    CL_FLOAT_CONFIG = 0x101b,
    CL_LOCAL_BYTES = 0x1023,
    CL_LITTLE_ENDIAN = 0x1026,
    CL_AVAILABLE = 0x1027,
    CL_COMPILER_AVAILABLE = 0x1028,
    CL_DEVICE_NAME = 0x102b,
    CL_DEVICE_PLATFORM = 0x1031,
    CL_DOUBLE_CONFIG = 0x1032
};
enum { CL_PLATFORM_NAME = 0x902 };
enum cl_float_config { CL_FUSED_MULTIPLY_ADD = 1 << 5, CL_ROUNDED_DIVISION = 1 << 7 };
enum cl_kernel_info { CL_KERNEL_MEMBERS = 0x11b0 };
enum { CL_READ_WRITE = 1, CL_BUILD_LOG = 0x1183 };

#define OPENCL_API(X)                                                                              \
    X(GetPlatformIDs, int32_t, (uint32_t room, cl_platform * out, uint32_t * count))               \
    X(GetPlatformInfo, int32_t,                                                                    \
      (cl_platform platform, uint32_t what, size_t room, void *out, size_t *size))                 \
    X(GetDeviceIDs, int32_t,                                                                       \
      (cl_platform platform, uint64_t type, uint32_t room, cl_device * out, uint32_t * count))     \
    X(GetDeviceInfo, int32_t,                                                                      \
      (cl_device device, uint32_t what, size_t room, void *out, size_t *size))                     \
    X(CreateContext, cl_context,                                                                   \
      (const intptr_t *properties, uint32_t devices, const cl_device *device,                      \
       cl_context_callback report, void *user, int32_t *error))                                    \
    X(ReleaseContext, int32_t, (cl_context context))                                               \
    X(CreateCommandQueue, cl_queue,                                                                \
      (cl_context context, cl_device device, uint64_t properties, int32_t * error))                \
    X(ReleaseCommandQueue, int32_t, (cl_queue queue))                                              \
    X(CreateBuffer, cl_memory,                                                                     \
      (cl_context context, uint64_t flags, size_t size, void *host, int32_t *error))               \
    X(ReleaseMemObject, int32_t, (cl_memory memory))                                               \
    X(EnqueueReadBuffer, int32_t,                                                                  \
      (cl_queue queue, cl_memory memory, uint32_t wait, size_t offset, size_t size, void *to,      \
       uint32_t events, const void *event, void *out))                                             \
    X(EnqueueWriteBuffer, int32_t,                                                                 \
      (cl_queue queue, cl_memory memory, uint32_t wait, size_t offset, size_t size,                \
       const void *from, uint32_t events, const void *event, void *out))                           \
    X(CreateProgramWithSource, cl_program,                                                         \
      (cl_context context, uint32_t count, const char **text, const size_t *length,                \
       int32_t *error))                                                                            \
    X(BuildProgram, int32_t,                                                                       \
      (cl_program program, uint32_t devices, const cl_device *device, const char *options,         \
       cl_build_callback done, void *user))                                                        \
    X(GetProgramBuildInfo, int32_t,                                                                \
      (cl_program program, cl_device device, uint32_t what, size_t room, void *out, size_t *size)) \
    X(ReleaseProgram, int32_t, (cl_program program))                                               \
    X(CreateKernel, cl_kernel, (cl_program program, const char *name, int32_t *error))             \
    X(ReleaseKernel, int32_t, (cl_kernel kernel))                                                  \
    X(GetKernelWorkGroupInfo, int32_t,                                                             \
      (cl_kernel kernel, cl_device device, uint32_t what, size_t room, void *out, size_t *size))   \
    X(SetKernelArg, int32_t, (cl_kernel kernel, uint32_t i, size_t size, const void *value))       \
    X(EnqueueNDRangeKernel, int32_t,                                                               \
      (cl_queue queue, cl_kernel kernel, uint32_t dims, const size_t *offset, const size_t *all,   \
       const size_t *group, uint32_t events, const void *event, void *out))                        \
    X(Flush, int32_t, (cl_queue queue))                                                            \
    X(Finish, int32_t, (cl_queue queue))

#define X(name, returns, parameters) returns(*name) parameters;
typedef struct opencl_api {
    OPENCL_API(X)
} opencl_api;
#undef X

#endif
