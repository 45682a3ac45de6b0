/* Ways of recording calls of CUDA by CUPTI beside device operations, each switched on and off:
 * `calls_set(way, on)`. Records are counted and thrown away. The driver loads it by
 * CUDA_INJECTION64_PATH; CALLS_CUPTI names libcupti.
 *
 *     cc -O2 -shared -fPIC -o libcalls.so calls.c -ldl
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COPY = 1, SET = 2, DRIVER = 4, RUNTIME = 5, KERNEL = 10, KINDS = 64, BYTES = 1 << 20, SLOTS = 4096 };
/* CUPTI's numbers of the APIs. */
enum { OF_DRIVER = 1, OF_RUNTIME = 2 };
enum way { OPERATIONS = 1, RECORDS_BUT_OTHERS, RECORDS_OF_ALL, CALLBACKS, CALLBACKS_OF_DRIVER, CALLBACKS_OF_RUNTIME };

typedef int (*function)();
static function enable, disable, flush, next_record, driver_call, runtime_call, name_of, subscribe, unsubscribe, enable_callback;
static void *subscriber;
static long records[KINDS];
static long callbacks;

static void requested(uint8_t **buffer, size_t *bytes, size_t *most) {
    *buffer = aligned_alloc(8, BYTES);
    *bytes = *buffer ? BYTES : 0;
    *most = 0;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    (void)context, (void)stream, (void)bytes;
    for (void *at = 0; next_record(buffer, valid, &at) == 0;) {
        uint32_t kind = *(uint32_t *)at;
        if (kind < KINDS)
            __atomic_fetch_add(&records[kind], 1, __ATOMIC_RELAXED);
    }
    free(buffer);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

__thread struct { uint64_t time; uint32_t correlation, number; } ring[SLOTS];

/* Before and after a call: the time and the number of the call, into a ring of the thread. */
static void called(void *user, uint32_t domain, uint32_t number, const char *data) {
    static __thread unsigned at;
    (void)user, (void)domain;
    ring[at % SLOTS].time = now();
    ring[at % SLOTS].correlation = *(const uint32_t *)(data + 64);
    ring[at++ % SLOTS].number = number;
    __atomic_fetch_add(&callbacks, 1, __ATOMIC_RELAXED);
}

/* Whether calls of this function are wanted; -1 behind the last one. */
static int wanted(int domain, uint32_t number) {
    static const char *heads[] = {"Launch", "GraphLaunch", "Memcpy", "Memset", "StreamSynchronize", "EventSynchronize",
                                  "CtxSynchronize", "DeviceSynchronize", "StreamWaitEvent", "MemAlloc", "MemFree",
                                  "MemHost", "Malloc", "Free", "HostAlloc", "ModuleLoad", "LibraryLoad", 0};
    const char *name = 0;
    if (name_of(domain, number, &name) || !name)
        return -1;
    name += domain == OF_DRIVER ? strlen("cu") : strlen("cuda");
    for (const char **head = heads; *head; head++)
        if (!strncmp(name, *head, strlen(*head)))
            return 1;
    return 0;
}

static void leave_out(int domain, function set) {
    int is;
    for (uint32_t number = 1; (is = wanted(domain, number)) >= 0; number++)
        if (!is)
            set(number, (uint8_t)0);
}

static void report(int domain) {
    int is;
    for (uint32_t number = 1; (is = wanted(domain, number)) >= 0; number++)
        if (is)
            enable_callback(1, subscriber, domain, number);
}

void calls_set(int way, int on) {
    function change = on ? enable : disable;
    change(KERNEL), change(COPY), change(SET);
    if (way == RECORDS_BUT_OTHERS || way == RECORDS_OF_ALL)
        change(DRIVER), change(RUNTIME);
    if (way == RECORDS_BUT_OTHERS && on)
        leave_out(OF_DRIVER, driver_call), leave_out(OF_RUNTIME, runtime_call);
    if (way < CALLBACKS)
        return;
    if (!on) {
        unsubscribe(subscriber);
        return;
    }
    if (subscribe(&subscriber, called, 0))
        fprintf(stderr, "calls: another profiler has subscribed\n");
    if (way != CALLBACKS_OF_RUNTIME)
        report(OF_DRIVER);
    if (way != CALLBACKS_OF_DRIVER)
        report(OF_RUNTIME);
}

/* Kernels, records of the runtime and of the driver, and callbacks since it was last called. */
void calls_counts(long counts[4]) {
    flush(1);
    counts[0] = records[KERNEL], counts[1] = records[RUNTIME], counts[2] = records[DRIVER], counts[3] = callbacks;
    memset(records, 0, sizeof records);
    callbacks = 0;
}

int InitializeInjection(void) {
    const char *path = getenv("CALLS_CUPTI");
    void *cupti = dlopen(path ? path : "libcupti.so.13", RTLD_NOW);
    if (!cupti) {
        fprintf(stderr, "calls: %s\n", dlerror());
        return 0;
    }
    enable = (function)dlsym(cupti, "cuptiActivityEnable");
    disable = (function)dlsym(cupti, "cuptiActivityDisable");
    flush = (function)dlsym(cupti, "cuptiActivityFlushAll");
    next_record = (function)dlsym(cupti, "cuptiActivityGetNextRecord");
    driver_call = (function)dlsym(cupti, "cuptiActivityEnableDriverApi");
    runtime_call = (function)dlsym(cupti, "cuptiActivityEnableRuntimeApi");
    name_of = (function)dlsym(cupti, "cuptiGetCallbackName");
    subscribe = (function)dlsym(cupti, "cuptiSubscribe");
    unsubscribe = (function)dlsym(cupti, "cuptiUnsubscribe");
    enable_callback = (function)dlsym(cupti, "cuptiEnableCallback");
    function clock = (function)dlsym(cupti, "cuptiActivityRegisterTimestampCallback");
    function buffers = (function)dlsym(cupti, "cuptiActivityRegisterCallbacks");
    return !(clock(now) | buffers(requested, completed));
}
