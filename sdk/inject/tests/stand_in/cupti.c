/* Stands in for libcupti: each flush hands out one buffer with one kernel and the call that
 * launched it. Compiled by the test; see CUPTI's cupti_activity.h for the real thing. */
#include <stdint.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define KERNELS 10 /* CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL */
#define RECORD 256 /* both records take as much here */

typedef void (*Requested)(uint8_t **, size_t *, size_t *);
typedef void (*Completed)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef uint64_t (*Timestamp)(void);

static Requested requested;
static Completed completed;
static Timestamp timestamp;
static uint32_t next = 1;

struct Kernel { /* CUpti_ActivityKernel9, its beginning */
    uint32_t kind; uint8_t skipped[12];
    uint64_t start, end, done;
    uint32_t device, context, stream;
    int32_t shape[8];
    uint32_t local[2], correlation;
    int64_t grid;
    const char *name;
};

struct Call { /* CUpti_ActivityAPI */
    uint32_t kind, callback;
    uint64_t start, end;
    uint32_t process, thread, correlation, returned;
};

/* What a test looks at, and changes, by these names. */
#ifndef ANSWER
#define ANSWER 0
#endif
int answer = ANSWER; /* what cuptiSubscribe says; 39: another profiler is there */
int subscribers, refused; /* that are there, and that were not let in */
int flushes, switches; /* calls of these since the process began */
int recorded; /* kernels are */
int silent; /* they are not any more: the subscriber left while they were recorded, as was seen of CUPTI 13.0 */
int waits; /* milliseconds that a flush waits, as CUPTI's does while the driver loads a module */
uint64_t stand_in_time(void) { return timestamp(); }

uint32_t cuptiActivityEnable(uint32_t kind) { recorded |= kind == KERNELS; switches += 1; return 0; }
uint32_t cuptiActivityDisable(uint32_t kind) { recorded &= kind != KERNELS; switches += 1; return 0; }
uint32_t cuptiSetThreadIdType(uint32_t type) { (void)type; return 0; }
uint32_t cuptiGetVersion(uint32_t *version) { *version = 130000; return 0; }
uint32_t cuptiUnsubscribe(void *subscriber) { (void)subscriber; silent |= recorded; subscribers -= 1; return 0; }
uint32_t cuptiGetResultString(uint32_t code, const char **text) { (void)code; *text = "CUPTI_ERROR_STAND_IN"; return 0; }

uint32_t cuptiSubscribe(void **subscriber, const void *callback, void *data) {
    (void)callback; (void)data; *subscriber = &next;
    *(answer ? &refused : &subscribers) += 1;
    return answer;
}

uint32_t cuptiEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t number) {
    (void)on; (void)subscriber; (void)domain; (void)number;
    return 0;
}

uint32_t cuptiActivityRegisterCallbacks(Requested r, Completed c) { requested = r; completed = c; return 0; }
uint32_t cuptiActivityRegisterTimestampCallback(Timestamp t) { timestamp = t; return 0; }

uint32_t cuptiGetCallbackName(uint32_t domain, uint32_t number, const char **name) {
    if (number != 1) return 1;
    *name = domain == 1 ? "cuLaunchKernel" : "cudaLaunchKernel_v7000";
    return 0;
}

uint32_t cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) {
    static size_t lost = 3; /* once, as CUPTI counts from one question to the next */
    (void)context; (void)stream;
    *dropped = lost;
    lost = 0;
    return 0;
}

uint32_t cuptiActivityFlushAll(uint32_t flag) {
    uint8_t *buffer = NULL; size_t size = 0, most = 0;
    (void)flag;
    flushes += 1;
    usleep(waits * 1000);
    requested(&buffer, &size, &most);
    if (!buffer || size < 2 * RECORD) return 0;
    uint64_t now = timestamp();
    struct Call call = { .kind = 4, .callback = 1, .start = now - 2000, .end = now - 1000, .thread = 1, .correlation = next };
    struct Kernel kernel = { .kind = 10, .start = now - 900, .end = now - 100, .stream = 7, .correlation = next, .name = "stand_in" };
    memset(buffer, 0, 2 * RECORD);
    memcpy(buffer, &call, sizeof call);
    memcpy(buffer + RECORD, &kernel, sizeof kernel);
    next += 1;
    completed(NULL, 0, buffer, size, silent ? 0 : 2 * RECORD);
    return 0;
}

uint32_t cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record) {
    uint8_t *at = *record ? (uint8_t *)*record + RECORD : buffer;
    if (at >= buffer + valid) return 12;
    *record = at;
    return 0;
}
