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

// What a polling block keeps in shared memory; thread 0 writes, all read behind a barrier.
struct YieldShared {
    QueueShared queue;
    uint32_t generation;
    uint32_t observed_ns;
    uint32_t last_old_ns;
    uint32_t claim;
    uint32_t expired;
    uint32_t yields;
    uint32_t claims;
};

// Notes a newer generation and publishes it to the block; thread 0, before a barrier.
__device__ __forceinline__ void observe(const EventArgs& events, YieldShared& shared, uint32_t generation,
                                        uint32_t last_old_ns) {
    shared.observed_ns = ptx::mov_globaltimer_lo();
    if (delayed(events, kLegObservedToReady, generation - events.first_generation - 1)) spin(events.delay_ns);
    shared.last_old_ns = last_old_ns;
    shared.generation = generation;
}

// Records this block as ready for every event after `seen` up to the published generation; thread 0.
__device__ __forceinline__ void record_ready(const EventArgs& events, const YieldShared& shared, uint32_t first_column,
                                             uint32_t seen) {
    const uint32_t ready_ns = ptx::mov_globaltimer_lo();
    ptx::fence_acq_rel_gpu();  // With the relaxed poll before it, the acquire: urgent work sees what came before the set.
    for (uint32_t event = seen - events.first_generation; event != shared.generation - events.first_generation; ++event) {
        const uint64_t cell = static_cast<uint64_t>(event) * events.columns + blockIdx.x + first_column;
        events.observed_ns[cell] = shared.observed_ns;
        events.ready_ns[cell] = ready_ns;
        events.last_old_ns[cell] = shared.last_old_ns;
        events.seen[cell] = kSeenObserved | kSeenReady;
        ptx::red_add_release_gpu(events.ready_count + event, 1);
    }
}

// Takes one urgent tile of the observed events, or none; thread 0.
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
    const bool leader = threadIdx.x == 0;
    if (leader) {
        if (delayed(events, kLegReadyToUrgent, event)) spin(events.delay_ns);
        events.urgent_start_ns[ticket] = ptx::mov_globaltimer();
        events.claimer[ticket] = blockIdx.x + work.first_column;
        ptx::red_add_relaxed_gpu(events.urgent_executions + ticket, 1);
        ++shared.claims;
    }
    compute_tile(window, source_of(work.a, work.b, work.k_chunks, pair), work.k_chunks,
                 events.urgent_c + static_cast<uint64_t>(ticket) * kTileFloats);
    if (leader && delayed(events, kLegUrgent, event)) spin(events.delay_ns);
    __syncthreads();
    if (!leader) return;
    events.urgent_done_ns[ticket] = ptx::mov_globaltimer();
    const uint32_t before = ptx::atom_add_acq_rel_gpu(events.urgent_finished + event, 1);
    if (before + 1 == events.urgent_tiles && events.set_mode == kSetHost) {
        if (delayed(events, kLegDoneToHost, event)) spin(events.delay_ns);
        ptx::st_release_sys(events.host_urgent_done + static_cast<uint64_t>(event) * kHostLine, 1);
    }
}

// Serves every event after `seen`; all threads. Afterwards the stages hold nothing, and a barrier must come before
// anything writes them.
__device__ __forceinline__ void serve(const WorkArgs& work, const EventArgs& events, YieldShared& shared,
                                      const Window& window, uint32_t seen) {
    const bool leader = threadIdx.x == 0;
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
