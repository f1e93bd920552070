// What a block does at a tile boundary once it knows of a newer generation: record, claim urgent tiles, run them, go on.
//
// Everything here is off the common path. It is entered by all threads together, behind the barrier that published the
// decision, with no copy in flight; a background task the block popped before is executed afterwards.
#pragma once

#include "flag.cuh"
#include "queue.cuh"

constexpr uint32_t kNoClaim = 0xFFFFFFFFu;

// Bits of `EventArgs::seen`.
constexpr uint8_t kSeenObserved = 1;
constexpr uint8_t kSeenReady = 2;

// What a polling block keeps in shared memory; one thread writes, all read behind a barrier.
struct YieldShared {
    QueueShared queue;
    uint32_t generation;
    uint32_t observed_ns;
    uint32_t old_at;  // SM clock when the last poll began.
    uint32_t old_cycles;
    uint32_t claim;
    uint32_t expired;
    uint32_t yields;
    uint32_t claims;
    uint32_t spent_ns;  // On the delay planted between observed and ready.
};

// Notes a newer generation and publishes it to the block; leader, before a barrier. The last poll that returned an
// older one is known by the SM clock: the global timer is too slow to be read at each poll.
__device__ __forceinline__ void observe(YieldShared& shared, uint32_t generation) {
    shared.observed_ns = ptx::mov_globaltimer_lo();
    shared.old_cycles = static_cast<uint32_t>(ptx::mov_clock64()) - shared.old_at;
    shared.generation = generation;
}

// Records this block as ready for every event after `seen` up to the published generation; leader.
__device__ __forceinline__ void record_ready(const EventArgs& events, YieldShared& shared, uint32_t first_column,
                                             uint32_t seen) {
    shared.spent_ns = plant(events, kLegObservedToReady, shared.generation - events.first_generation - 1);
    const uint32_t ready_ns = ptx::mov_globaltimer_lo();
    ptx::fence_acq_rel_gpu();  // With the relaxed poll before it, the acquire: urgent work sees what came before the set.
    for (uint32_t event = seen - events.first_generation; event != shared.generation - events.first_generation; ++event) {
        const uint64_t cell = static_cast<uint64_t>(event) * events.columns + blockIdx.x + first_column;
        events.observed_ns[cell] = shared.observed_ns;
        events.ready_ns[cell] = ready_ns;
        events.old_cycles[cell] = shared.old_cycles;
        events.seen[cell] = kSeenObserved | kSeenReady;
        ptx::red_add_release_gpu(events.ready_count + event, 1);
    }
}

// Takes one urgent tile of the observed events, or none; leader.
__device__ __forceinline__ uint32_t claim_urgent(const EventArgs& events, uint32_t observed_events) {
    const uint32_t limit = observed_events * events.urgent_tiles;
    uint32_t ticket = ptx::ld_relaxed_gpu(events.claimed);
    while (ticket < limit) {
        const uint32_t before = ptx::atom_cas_acq_rel_gpu(events.claimed, ticket, ticket + 1);
        if (before == ticket) return ticket;
        ticket = before;
    }
    return kNoClaim;
}

// Runs the urgent tile of a ticket; all threads.
__device__ __forceinline__ void run_urgent(const WorkArgs& work, const EventArgs& events, YieldShared& shared,
                                           const Window& window, uint32_t ticket) {
    const uint32_t event = ticket / events.urgent_tiles;
    const uint32_t pair = urgent_pair(events.first_event_id + event, ticket % events.urgent_tiles);
    const bool leader = threadIdx.x == kLeader;
    if (leader) {
        plant_recorded(events, kLegReadyToUrgent, event);
        if (events.delay_leg == kLegObservedToReady) record_spent(events, event, shared.spent_ns);
        events.urgent_start_ns[ticket] = ptx::mov_globaltimer();
        events.claimer[ticket] = blockIdx.x + work.first_column;
        ptx::red_add_relaxed_gpu(events.urgent_executions + ticket, 1);
        ++shared.claims;
    }
    compute_tile(window, source_of(work.a, work.b, work.k_chunks, pair), work.k_chunks,
                 events.urgent_c + static_cast<uint64_t>(ticket) * kTileFloats);
    __syncthreads();
    if (!leader) return;
    plant_recorded(events, kLegUrgent, event);
    events.urgent_done_ns[ticket] = ptx::mov_globaltimer();
    const uint32_t before = ptx::atom_add_acq_rel_gpu(events.urgent_finished + event, 1);
    if (before + 1 == events.urgent_tiles && events.set_mode == kSetHost) {
        plant_recorded(events, kLegDoneToHost, event);
        ptx::st_release_sys(events.host_urgent_done + static_cast<uint64_t>(event) * kHostLine, 1);
    }
}

// Serves every event after `seen`; all threads, no copy in flight. Afterwards the stages are free.
__device__ __forceinline__ void serve(const WorkArgs& work, const EventArgs& events, YieldShared& shared,
                                      const Window& window, uint32_t seen) {
    const bool leader = threadIdx.x == kLeader;
    if (leader) {
        record_ready(events, shared, work.first_column, seen);
        ++shared.yields;
    }
#pragma unroll 1
    for (;;) {
        if (leader) shared.claim = claim_urgent(events, shared.generation - events.first_generation);
        __syncthreads();
        const uint32_t ticket = shared.claim;
        if (ticket == kNoClaim) return;
        run_urgent(work, events, shared, window, ticket);
    }
}
