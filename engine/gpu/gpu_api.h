// Interface of a device back end: one table of C functions, the only connection between Rivulet and the library with
// the device's code. The engine links no CUDA: librivulet_cuda.so is opened at the first request for a GPU. The same
// build therefore runs on machines without a driver or toolkit (docs/internals/gpu.md). The emulated device has the
// same table over the same kernel sources, compiled for the host, so that everything but the hardware is tested
// everywhere.
//
// Every function returns 0 or an error of the back end; `error_text` translates it to text. None throws. One handle is
// used by one thread at a time; different handles may be used by different threads.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with anything below, and with the arguments of any kernel (engine/kernels/cuda): library and program are
   built together, and a stale library is refused. */
#define RIVULET_GPU_ABI 4

/* `error_text` knows the back end's codes and these: no memory is left. */
#define RIVULET_GPU_OUT_OF_MEMORY (-2)
/* What was asked for needs a library that is not here; the entry that says what is missing says which. */
#define RIVULET_GPU_NOT_THERE (-3)

typedef struct RivuletGpuProperties {
  char name[256]; /* "NVIDIA H200" */
  char driver[64];
  size_t memory_bytes; /* in all */
  size_t free_bytes;   /* now */
  int32_t multiprocessors;
  int32_t compute_major, compute_minor; /* 9, 0; an emulated device: 0, 0 */
  double clock_hertz;
  double memory_bytes_per_second; /* by clock and width of the bus; 0: not known */
} RivuletGpuProperties;

typedef enum RivuletGpuCopyKind {
  RIVULET_GPU_COPY_TO_DEVICE = 0,
  RIVULET_GPU_COPY_TO_HOST = 1,
  RIVULET_GPU_COPY_ON_DEVICE = 2
} RivuletGpuCopyKind;

typedef enum RivuletGpuActivityKind {
  RIVULET_GPU_ACTIVITY_KERNEL = 0,
  RIVULET_GPU_ACTIVITY_COPY = 1,
  RIVULET_GPU_ACTIVITY_FILL = 2
} RivuletGpuActivityKind;

/* Something that a device did, as its driver recorded it. */
typedef struct RivuletGpuActivity {
  RivuletGpuActivityKind kind;
  int32_t device;
  uint32_t stream; /* the driver's number: the same for what ran in one stream */
  uint64_t label;  /* activity_label's, when it was put into the stream; of a graph when that was launched; 0: none */
  int64_t begin, end; /* nanoseconds of activity_clock */
  uint64_t bytes;     /* copied or filled */
  const char* name;   /* the function's, for as long as the call that tells this; may be mangled */
} RivuletGpuActivity;

typedef void (*RivuletGpuActivityTaker)(void* taker, const RivuletGpuActivity* activity);

/* A library of the toolkit's maker that the back end opens when it is asked for. */
typedef struct RivuletGpuLibrary {
  const char* name;    /* "NCCL" */
  const char* missing; /* why it is not used here, and the mend; "" where it is there */
} RivuletGpuLibrary;

/* One kernel: `launch` puts it into the stream with a grid that it computes from `arguments`, a plain struct of
   `argument_bytes` that the header of the kernel declares. */
typedef struct RivuletGpuKernel {
  const char* name; /* "relu_forward_f32" */
  size_t argument_bytes;
  int (*launch)(void* stream, const void* arguments);
} RivuletGpuKernel;

typedef struct RivuletGpuApi {
  uint32_t abi;
  const char* backend; /* "CUDA 13.0", "emulated" */
  const char* (*error_text)(int error);

  /* Devices in the order of CUDA_VISIBLE_DEVICES. No driver and no device is 0 devices and no error; `why` says which
     it is ("no driver", "the driver is older than the toolkit"). */
  int (*count)(int32_t* devices, const char** why);
  int (*properties)(int32_t device, RivuletGpuProperties* properties);

  /* The calling thread's kernels, copies, events and captures go to this device, which is their stream's. */
  int (*use_device)(int32_t device);

  int (*allocate)(int32_t device, size_t bytes, void** memory);
  int (*release)(int32_t device, void* memory);
  /* Of the host, that copies go to and from without a pause. */
  int (*allocate_pinned)(size_t bytes, void** memory);
  int (*release_pinned)(void* memory);

  /* Work of one stream runs in order; of two streams in any, but for events. */
  int (*stream_create)(int32_t device, void** stream);
  int (*stream_destroy)(void* stream);
  int (*stream_wait)(void* stream); /* until all is done; tells the errors of what ran */
  int (*copy)(void* stream, void* to, const void* from, size_t bytes, RivuletGpuCopyKind kind);
  int (*fill)(void* stream, void* to, int byte, size_t bytes);

  int (*event_create)(int32_t device, void** event);
  int (*event_destroy)(void* event);
  int (*event_record)(void* event, void* stream);
  int (*stream_wait_event)(void* stream, void* event); /* the stream's later work waits */
  int (*event_milliseconds)(void* from, void* to, float* milliseconds);

  /* From begin to end work is not run but kept as a graph, which is then run as a whole, any number of times. */
  int (*capture_begin)(void* stream);
  int (*capture_end)(void* stream, void** graph);
  int (*graph_launch)(void* graph, void* stream);
  int (*graph_destroy)(void* graph);

  /* Records of what this process's devices do, from start to stop (CUPTI). `activity_missing`: why there are none
     here, and the mend; "" where there are. Stop tells all that ended since the start, in no order: the streams have
     been waited for. */
  const char* (*activity_missing)(void);
  int (*activity_start)(void);
  int (*activity_stop)(void* taker, RivuletGpuActivityTaker take);
  int (*activity_clock)(int64_t* nanoseconds);
  /* What this thread puts into streams from here on bears it, while records are taken. */
  int (*activity_label)(uint64_t label);

  const RivuletGpuLibrary* (*libraries)(size_t* count);

  /* Integers of several devices of this process, added by the devices (NCCL). `sum_missing`: why they cannot here, and
     the mend; "" where they can. `sum_add` puts into each device's stream, in the order that sum_create was given: what
     lies at `numbers` of each, `count` of 8 bytes or 4, is added, modulo 2^64 or 2^32, to the first's. */
  const char* (*sum_missing)(void);
  int (*sum_create)(const int32_t* devices, int32_t count, void** sum);
  int (*sum_destroy)(void* sum);
  int (*sum_add)(void* sum, void* const* streams, void* const* numbers, size_t count, int32_t bytes);

  const RivuletGpuKernel* kernels;
  size_t kernel_count;
} RivuletGpuApi;

/* The entry of librivulet_cuda.so. */
typedef const RivuletGpuApi* (*RivuletGpuEntry)(void);
#define RIVULET_GPU_ENTRY "rivulet_gpu_api"

#ifdef __cplusplus
}
#endif
