// The polling kernels: the poll-free loop plus one relaxed load of the flag every kPeriod tiles, and the way out of it.
//
// The load is issued before a tile's last chunk is multiplied and looked at after its outputs are issued. The barrier that
// starts the next tile publishes the decision: to any warp but the poller's a poll is one shared load and a comparison.
// Without a schedule (no events) the same code drains the queue and every block works; with one that this grid sets, block 0
// does nothing but set the flag.
#include "checkpoint.cuh"

namespace {

template <uint32_t kPeriod>
struct YieldPolicy : PlainPolicy {
    static_assert(kPeriod > 0 && (kPeriod & (kPeriod - 1)) == 0, "the poll period is a power of two");

    const WorkArgs& work;
    const EventArgs& events;
    YieldShared& shared;
    uint32_t seen;           // Generation this block has served; the same in all threads.
    uint32_t polled = 0;     // Poller: what the last poll returned ...
    uint32_t polled_at = 0;  // ... and the SM clock when it began.

    __device__ __forceinline__ YieldPolicy(const WorkArgs& work, const EventArgs& events, YieldShared& shared)
        : work(work), events(events), shared(shared), seen(events.first_generation) {}

    __device__ __forceinline__ void before_last_chunk(uint32_t tiles) {
        if (threadIdx.x == kPoller && (tiles + 1) % kPeriod == 0) poll();
    }

    __device__ __forceinline__ void after_tile(uint32_t tiles, const QueueWindow& window) {
        if (threadIdx.x == kPoller && tiles % kPeriod == 0) look(window);
    }

    __device__ __forceinline__ void poll() {
        polled_at = static_cast<uint32_t>(ptx::mov_clock64());
        polled = ptx::ld_relaxed_gpu(events.flag);
    }

    // Looks at what was polled: whether it is newer. Either way the poll is old to the next one.
    __device__ __forceinline__ bool look(const QueueWindow& window) {
        const bool found = newer(polled, seen);
        if (__builtin_expect(found, 0)) observe(shared, polled);
        ptx::st_shared<kOldAt>(window.next, polled_at);
        return found;
    }

    __device__ __forceinline__ bool interrupted(uint32_t tiles, const QueueWindow& window) {
        if (tiles % kPeriod != 0) return false;
        if (__builtin_expect(ptx::ld_shared<kGeneration>(window.next) == seen, 1)) return false;
        serve(work, events, shared, window, seen);
        seen = shared.generation;
        return true;
    }

    // Polls without work until every scheduled event is served. Returns the deadlines hit.
    __device__ __forceinline__ uint32_t linger() {
#pragma unroll 1
        while (seen - events.first_generation != events.n_events) {
            __syncthreads();
            if (threadIdx.x == kPoller) shared.expired = !poll_until_newer();
            __syncthreads();
            if (shared.expired != 0) return 1;
            serve(work, events, shared, Window(shared.queue.stages), seen);
            seen = shared.generation;
        }
        return 0;
    }

    __device__ __forceinline__ bool poll_until_newer() {
        if (newer(shared.generation, seen)) return true;  // Observed at the last tile, not served yet.
        const Deadline deadline{work.blocks[blockIdx.x + work.first_column].start_ns, events.deadline_ns};
        return wait_until(deadline, [&] {
            poll();
            return look(QueueWindow(shared.queue));
        });
    }
};

// Block 0 of a grid that sets its own flag.
__device__ __forceinline__ void set_only(const WorkArgs& work, const EventArgs& events) {
    if (threadIdx.x != kLeader) return;
    const Deadline deadline{begin_block(work), events.deadline_ns};
    end_block(work, 0, set_flags(events, deadline));
}

template <uint32_t kPeriod>
__device__ __forceinline__ void yield(const WorkArgs& work, const EventArgs& events) {
    __shared__ YieldShared shared;
    if (events.n_events != 0 && events.set_mode != kSetKernel && blockIdx.x == 0) return set_only(work, events);
    YieldPolicy<kPeriod> policy(work, events, shared);
    if (threadIdx.x == kLeader) {
        shared.generation = events.first_generation;
        shared.old_at = static_cast<uint32_t>(ptx::mov_clock64());
        shared.yields = 0;
        shared.claims = 0;
        begin_block(work);
        if (events.n_events != 0) ptx::red_add_release_gpu(events.checked_in, 1);
    }
    const uint32_t tiles = drain_queue(work, shared.queue, policy);
    const uint32_t deadline_hits = policy.linger();
    __syncthreads();
    if (threadIdx.x == kLeader) {
        count_sites(work, tiles, shared.yields, shared.claims);
        end_block(work, tiles, deadline_hits);
    }
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads, 5) void preempt_yield_p1(const __grid_constant__ WorkArgs work,
                                                                           const __grid_constant__ EventArgs events) {
    yield<1>(work, events);
}

extern "C" __global__ __launch_bounds__(kThreads, 5) void preempt_yield_p4(const __grid_constant__ WorkArgs work,
                                                                           const __grid_constant__ EventArgs events) {
    yield<4>(work, events);
}

// One block of one warp that sets the flag of a grid beside it.
extern "C" __global__ __launch_bounds__(32, 1) void preempt_setter(const __grid_constant__ WorkArgs work,
                                                                   const __grid_constant__ EventArgs events) {
    set_only(work, events);
}
