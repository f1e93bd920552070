// The polling kernels: the poll-free loop plus one relaxed load of the flag every kPeriod tiles, and the way out of it.
//
// The load is issued before a tile's last chunk is multiplied and looked at after its outputs are issued. The barrier that
// starts the next tile publishes the decision. Without a schedule (no events) the same code drains the queue and every
// block works; with one that this grid sets, block 0 does nothing but set the flag.
#include "checkpoint.cuh"

namespace {

template <uint32_t kPeriod>
struct YieldPolicy : PlainPolicy {
    static_assert(kPeriod > 0 && (kPeriod & (kPeriod - 1)) == 0, "the poll period is a power of two");

    const WorkArgs& work;
    const EventArgs& events;
    YieldShared& shared;
    uint32_t seen;              // Generation this block has served; the same in all threads.
    uint32_t polled = 0;        // Thread 0: what the last poll returned ...
    uint32_t polled_ns = 0;     // ... when it began ...
    uint32_t last_old_ns = 0;   // ... and when the last one began that returned an older generation.

    __device__ __forceinline__ YieldPolicy(const WorkArgs& work, const EventArgs& events, YieldShared& shared)
        : work(work), events(events), shared(shared), seen(events.first_generation) {}

    __device__ __forceinline__ bool at_boundary(uint32_t tiles, const Window& window) {
        if (tiles % kPeriod != 0) return false;
        if (__builtin_expect(shared.generation == seen, 1)) return false;
        serve(work, events, shared, window, seen);
        seen = shared.generation;
        return true;
    }

    __device__ __forceinline__ void before_last_chunk(uint32_t tiles) {
        if ((tiles + 1) % kPeriod != 0) return;
        polled_ns = ptx::mov_globaltimer_lo();
        polled = ptx::ld_relaxed_gpu(events.flag);
    }

    __device__ __forceinline__ void after_tile(uint32_t tiles) {
        if (tiles % kPeriod != 0) return;
        if (__builtin_expect(newer(polled, seen), 0)) {
            observe(events, shared, polled, last_old_ns);
        } else {
            last_old_ns = polled_ns;
        }
    }

    // Polls without work until every scheduled event is served. Returns the deadlines hit.
    __device__ __forceinline__ uint32_t linger() {
#pragma unroll 1
        while (seen - events.first_generation != events.n_events) {
            __syncthreads();
            if (threadIdx.x == 0) shared.expired = !poll_until_newer();
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
            polled_ns = ptx::mov_globaltimer_lo();
            polled = ptx::ld_relaxed_gpu(events.flag);
            if (newer(polled, seen)) {
                observe(events, shared, polled, last_old_ns);
                return true;
            }
            last_old_ns = polled_ns;
            return false;
        });
    }
};

// Block 0 of a grid that sets its own flag.
__device__ __forceinline__ void set_only(const WorkArgs& work, const EventArgs& events) {
    if (threadIdx.x != 0) return;
    const Deadline deadline{begin_block(work), events.deadline_ns};
    end_block(work, 0, set_flags(events, deadline));
}

template <uint32_t kPeriod>
__device__ __forceinline__ void yield(const WorkArgs& work, const EventArgs& events) {
    __shared__ YieldShared shared;
    if (events.n_events != 0 && events.set_mode != kSetKernel && blockIdx.x == 0) return set_only(work, events);
    YieldPolicy<kPeriod> policy(work, events, shared);
    if (threadIdx.x == 0) {
        shared.generation = events.first_generation;
        shared.yields = 0;
        shared.claims = 0;
        begin_block(work);
        if (events.n_events != 0) ptx::red_add_release_gpu(events.checked_in, 1);
    }
    const uint32_t tiles = drain_queue(work, shared.queue, policy);
    const uint32_t deadline_hits = policy.linger();
    __syncthreads();
    if (threadIdx.x == 0) {
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
