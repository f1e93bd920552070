/* A stand-in for libnvidia-ml.so.1 in tests: one H200-like GPU whose answers a text file drives.
 *
 * Files beside the library itself (so that a copy of it is a GPU of its own):
 *   <library>.state    "key value" lines, read again at every call; see `number` for the keys' defaults
 *   <library>.locked   which clocks are locked, across processes: "sm MHZ" and "memory MHZ"
 *   <library>.setters  every setter call, one a line
 * The environment variable FAKE_NVML_STATE replaces <library>.
 *
 * Keys: sm_min sm_max sm_step memory_max        the clocks there are
 *       sag N            under load the clock never exceeds N, and the power cap shows when asked for more
 *       lie N            setters succeed and the SM clock stays N
 *       throttle BITS    reason bits, always on
 *       refuse CODE      what SM setters return; refuse_memory CODE likewise; refuse_reset CODE what resets return
 *       lost_after N     from the N-th call of a process on, the GPU is lost
 *       empty 1          texts are empty
 *       unsupported WORD (may repeat) the getters of that word are not supported: sm_clock throttle violations ecc remap
 *                        mig processes clocks power temperature
 *       process PID      (may repeat) a compute process
 *       ecc_errors N, remap_pending N, mig N, power_mw N, power_cap_mw N, violation_step_ns N
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned int Return;
typedef void *Device;
enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };

#define UUID "GPU-fa4efa4e-0000-4000-8000-000000000001"

static int calls;

static void file_name(char *out, size_t size, const char *suffix) {
    const char *base = getenv("FAKE_NVML_STATE");
    Dl_info info;
    if (!base) base = dladdr((void *)file_name, &info) ? info.dli_fname : "fake_nvml";
    snprintf(out, size, "%s%s", base, suffix);
}

static FILE *open_beside(const char *suffix, const char *mode) {
    char name[4096];
    file_name(name, sizeof name, suffix);
    return fopen(name, mode);
}

/* The n-th value of a key (from 0), or NULL. */
static const char *text(const char *suffix, const char *key, int n) {
    static _Thread_local char value[256];
    char found[256], line[512];
    FILE *file = open_beside(suffix, "r");
    const char *result = NULL;
    while (file && !result && fgets(line, sizeof line, file))
        if (sscanf(line, "%255s %255s", found, value) == 2 && !strcmp(found, key) && n-- == 0) result = value;
    if (file) fclose(file);
    return result;
}

static unsigned long long number(const char *key, unsigned long long fallback) {
    const char *value = text(".state", key, 0);
    return value ? strtoull(value, NULL, 0) : fallback;
}

static unsigned locked(const char *which) {
    const char *value = text(".locked", which, 0);
    return value ? (unsigned)atoi(value) : 0;
}

static void set_locked(unsigned sm, unsigned memory) {
    char partial[4096], whole[4096];
    file_name(partial, sizeof partial, ".locked.partial");
    file_name(whole, sizeof whole, ".locked");
    FILE *file = fopen(partial, "w");
    if (!file) return;
    if (sm) fprintf(file, "sm %u\n", sm);
    if (memory) fprintf(file, "memory %u\n", memory);
    fclose(file);
    rename(partial, whole);
}

static void log_setter(const char *name, unsigned mhz) {
    FILE *file = open_beside(".setters", "a");
    if (!file) return;
    fprintf(file, "%s %u\n", name, mhz);
    fclose(file);
}

/* Whether the GPU answers at all, and this word of it. */
static Return alive(const char *word) {
    const char *other;
    if ((unsigned long long)__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) > number("lost_after", ~0ULL)) return LOST;
    for (int n = 0; (other = text(".state", "unsupported", n)); n++)
        if (!strcmp(other, word)) return UNSUPPORTED;
    return OK;
}

static unsigned wanted(void) {
    unsigned lock = locked("sm");
    return lock ? lock : (unsigned)number("sm_max", 1980);
}

static int sagging(void) { return wanted() > number("sag", ~0ULL); }

#define ANSWER(word, statement) \
    do { \
        Return state = alive(word); \
        if (state == OK) { statement; } \
        return state; \
    } while (0)

Return nvmlInit_v2(void) { return (Return)number("init", OK); }
Return nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
Return nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(Return code) { (void)code; return "an error of the fake"; }

static Return copy(char *out, unsigned size, const char *value) {
    snprintf(out, size, "%s", number("empty", 0) ? "" : value);
    return OK;
}

Return nvmlSystemGetDriverVersion(char *out, unsigned size) { return copy(out, size, "580.95.05"); }
Return nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return OK; }

Return nvmlDeviceGetHandleByIndex_v2(unsigned idx, Device *device) {
    *device = (Device)&calls;
    return idx == 0 ? OK : INVALID;
}

Return nvmlDeviceGetHandleByUUID(const char *uuid, Device *device) {
    *device = (Device)&calls;
    return strcmp(uuid, UUID) ? NOT_FOUND : OK;
}

Return nvmlDeviceGetUUID(Device d, char *out, unsigned size) { (void)d; snprintf(out, size, "%s", UUID); return OK; }
Return nvmlDeviceGetName(Device d, char *out, unsigned size) { (void)d; ANSWER("name", copy(out, size, "NVIDIA Fake")); }

/* Clock types: 1 SM, 2 memory. */
Return nvmlDeviceGetClockInfo(Device d, unsigned type, unsigned *mhz) {
    (void)d;
    if (type == 2) ANSWER("memory_clock", *mhz = locked("memory") ? locked("memory") : (unsigned)number("memory_max", 2619));
    ANSWER("sm_clock", *mhz = (unsigned)number("lie", sagging() ? number("sag", 0) : wanted()));
}

Return nvmlDeviceGetMaxClockInfo(Device d, unsigned type, unsigned *mhz) {
    (void)d;
    ANSWER("clocks", *mhz = (unsigned)(type == 2 ? number("memory_max", 2619) : number("sm_max", 1980)));
}

Return nvmlDeviceGetSupportedMemoryClocks(Device d, unsigned *count, unsigned *mhz) {
    (void)d;
    if (*count < 1) return TOO_SMALL;
    ANSWER("clocks", (*count = 1, mhz[0] = (unsigned)number("memory_max", 2619)));
}

Return nvmlDeviceGetSupportedGraphicsClocks(Device d, unsigned memory, unsigned *count, unsigned *mhz) {
    unsigned min = (unsigned)number("sm_min", 345), max = (unsigned)number("sm_max", 1980);
    unsigned step = (unsigned)number("sm_step", 15), n = (max - min) / step + 1;
    (void)d, (void)memory;
    if (*count < n) return *count = n, TOO_SMALL;
    *count = n;
    for (unsigned i = 0; i < n; i++) mhz[i] = max - i * step;
    return alive("clocks");
}

Return nvmlDeviceGetPowerUsage(Device d, unsigned *mw) {
    (void)d;
    unsigned cap = (unsigned)number("power_cap_mw", 700000);
    ANSWER("power", *mw = sagging() ? cap : (unsigned)number("power_mw", 450000));
}

Return nvmlDeviceGetEnforcedPowerLimit(Device d, unsigned *mw) {
    (void)d;
    ANSWER("power", *mw = (unsigned)number("power_cap_mw", 700000));
}

Return nvmlDeviceGetTemperature(Device d, unsigned sensor, unsigned *c) { (void)d, (void)sensor; ANSWER("temperature", *c = 47); }

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device d, unsigned long long *bits) {
    (void)d;
    ANSWER("throttle", *bits = number("throttle", 0) | (sagging() ? 4 : 0) | (locked("sm") ? 2 : 0));
}

Return nvmlDeviceGetViolationStatus(Device d, unsigned policy, unsigned long long *times) {
    (void)d;
    unsigned long long step = number("violation_step_ns", 0) * (unsigned long long)calls;
    ANSWER("violations", (times[0] = 0, times[1] = policy == 0 ? 1000 + step : 0));
}

Return nvmlDeviceGetEccMode(Device d, unsigned *now, unsigned *pending) { (void)d; ANSWER("ecc", *now = *pending = 1); }

Return nvmlDeviceGetTotalEccErrors(Device d, unsigned type, unsigned counter, unsigned long long *count) {
    (void)d, (void)type, (void)counter;
    ANSWER("ecc", *count = number("ecc_errors", 0));
}

Return nvmlDeviceGetMigMode(Device d, unsigned *now, unsigned *pending) {
    (void)d;
    ANSWER("mig", *now = *pending = (unsigned)number("mig", 0));
}

struct Field {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type;
    Return result;
    union { double d; unsigned u; unsigned long long ull; } value;
};

Return nvmlDeviceGetFieldValues(Device d, int count, struct Field *fields) {
    (void)d;
    for (int i = 0; i < count; i++) {
        fields[i].type = 1;
        fields[i].result = alive("remap");
        fields[i].value.ull = 0;
        if (fields[i].id == 144) fields[i].value.u = (unsigned)number("remap_pending", 0);
    }
    return OK;
}

struct Process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

Return nvmlDeviceGetComputeRunningProcesses_v3(Device d, unsigned *count, struct Process *out) {
    unsigned n = 0;
    (void)d;
    while (text(".state", "process", (int)n)) n++;
    Return state = alive("processes");
    if (state != OK) return state;
    if (*count < n) return *count = n, TOO_SMALL;
    *count = n;
    for (unsigned i = 0; i < n; i++) {
        memset(&out[i], 0, sizeof out[i]);
        out[i].pid = (unsigned)atoi(text(".state", "process", (int)i));
    }
    return OK;
}

Return nvmlDeviceSetGpuLockedClocks(Device d, unsigned min, unsigned max) {
    (void)d;
    log_setter("lock_sm", max);
    Return refusal = (Return)number("refuse", OK);
    if (refusal != OK) return refusal;
    if (min != max) return INVALID;
    ANSWER("lock_sm", set_locked(max, locked("memory")));
}

Return nvmlDeviceResetGpuLockedClocks(Device d) {
    (void)d;
    log_setter("reset_sm", 0);
    Return refusal = (Return)number("refuse_reset", OK);
    if (refusal != OK) return refusal;
    ANSWER("reset_sm", set_locked(0, locked("memory")));
}

Return nvmlDeviceSetMemoryLockedClocks(Device d, unsigned min, unsigned max) {
    (void)d;
    log_setter("lock_memory", max);
    Return refusal = (Return)number("refuse_memory", OK);
    if (refusal != OK) return refusal;
    if (min != max) return INVALID;
    ANSWER("lock_memory", set_locked(locked("sm"), max));
}

Return nvmlDeviceResetMemoryLockedClocks(Device d) {
    (void)d;
    log_setter("reset_memory", 0);
    Return refusal = (Return)number("refuse_reset", OK);
    if (refusal != OK) return refusal;
    ANSWER("reset_memory", set_locked(locked("sm"), 0));
}
