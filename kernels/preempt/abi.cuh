// What the host hands to the kernels and what it reads back; `harness/preempt/src/cuda/abi.rs` holds the same layouts.
#pragma once

#include <cstdint>

#include "record.cuh"

// How often each site was passed, summed over blocks.
struct SiteCounters {
    uint64_t yields;
    uint64_t claims;
    uint64_t copies;
};
static_assert(sizeof(SiteCounters) == 24, "the host reads three counters");

// The background queue and where its evidence goes. A null `host_started` means that no host is watching.
struct WorkArgs {
    const float* a;
    const float* b;
    float* c;
    uint32_t* executions;
    uint32_t* queue;
    uint32_t* arrivals;
    uint32_t* departures;
    BlockRecord* blocks;
    ClockSample* clock;
    SiteCounters* sites;
    uint32_t* host_started;
    uint32_t* host_done;
    uint32_t tasks;
    uint32_t k_chunks;
    uint32_t clock_shift;
    uint32_t clock_capacity;
    uint32_t first_column;
    uint32_t reserved;
};
static_assert(sizeof(WorkArgs) == 120, "twelve pointers and six words");

// What the calibrate kernel records beside its work.
struct CalibrateArgs {
    uint32_t* boundary_ns;  // A row a block with room for `boundaries` instants.
    uint32_t record_from;   // The task with which recording begins.
    uint32_t boundaries;
};
static_assert(sizeof(CalibrateArgs) == 16, "one pointer and two words");

// Words between two entries of `EventArgs::host_urgent_done`: a cache line of the host.
constexpr uint32_t kHostLine = 16;

// Who sets the flag.
enum SetMode : uint32_t { kSetDevice = 0, kSetHost = 1, kSetKernel = 2 };

// Where a delay is planted; the numbers are those of `schema::plan::Leg`.
enum DelayLeg : uint32_t {
    kLegNone = 0,
    kLegHostToSet = 1,
    kLegSetToObserved = 2,
    kLegObservedToReady = 3,
    kLegReadyToUrgent = 4,
    kLegUrgent = 5,
    kLegDoneToHost = 6,
};

// The schedule of events and where their evidence goes. Matrices have a row an event and `columns` entries a row.
struct EventArgs {
    uint32_t* flag;
    uint32_t* checked_in;
    uint32_t* claimed;
    const uint32_t* gaps_ns;
    uint64_t* set_ns;
    uint32_t* ready_count;
    uint32_t* urgent_finished;
    uint32_t* claimer;
    uint64_t* urgent_start_ns;
    uint64_t* urgent_done_ns;
    uint32_t* urgent_executions;
    float* urgent_c;
    uint32_t* observed_ns;
    uint32_t* ready_ns;
    uint32_t* old_cycles;  // SM cycles from the last poll that returned an older generation to the observation.
    uint8_t* seen;
    const uint32_t* host_issued;
    uint32_t* host_urgent_done;
    uint32_t* host_completed;
    uint32_t* delay_spent_ns;
    uint64_t deadline_ns;
    uint32_t n_events;
    uint32_t urgent_tiles;
    uint32_t first_generation;
    uint32_t first_event_id;
    uint32_t set_mode;
    uint32_t storm;
    uint32_t delay_leg;
    uint32_t delay_ns;
    uint32_t columns;
    uint32_t observers;
};
static_assert(sizeof(EventArgs) == 208, "twenty pointers, a deadline and ten words");

// The urgent tile of the baseline.
struct UrgentArgs {
    const float* a;
    const float* b;
    float* c;
    uint32_t* executions;
    uint64_t* times_ns;
    SiteCounters* sites;
    uint32_t* host_started;
    uint32_t* host_done;
    uint32_t k_chunks;
    uint32_t event_id;
};
static_assert(sizeof(UrgentArgs) == 72, "eight pointers and two words");

// A comparison of output tiles with the reference. `urgent_tiles` is 0 for background tiles.
struct CheckArgs {
    const uint32_t* c;
    const uint32_t* reference;
    const uint32_t* executions;
    uint32_t* counts;
    uint32_t tiles;
    uint32_t urgent_tiles;
    uint32_t first_event_id;
    uint32_t reserved;
};
static_assert(sizeof(CheckArgs) == 48, "four pointers and four words");
