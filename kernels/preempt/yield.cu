// The polling kernels: the poll-free loop plus one relaxed load of the flag every kPeriod tiles, and the way out of it.
//
// The leader issues the load before a tile's last chunk and looks at it when it pops at the next tile's start. Where the
// generation is newer it tells the block its next task with kInterrupt set, and the loop ends with this tile as it would on a
// dry queue: to every other thread polling costs not one instruction. A block is ready within two tiles and a chunk.
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
    uint32_t polled;         // Leader: what the last poll returned ...
    uint32_t polled_at;      // ... the SM clock when it began ...
    uint32_t interrupt = 0;  // ... and kInterrupt once it was newer.

    __device__ __forceinline__ YieldPolicy(const WorkArgs& work, const EventArgs& events, YieldShared& shared)
        : work(work),
          events(events),
          shared(shared),
          seen(events.first_generation),
          polled(events.first_generation),
          polled_at(static_cast<uint32_t>(ptx::mov_clock64())) {}

    __device__ __forceinline__ uint32_t pop(const WorkArgs& work, uint32_t tiles) {
        const uint32_t popped = PlainPolicy::pop(work, tiles);
        if (tiles % kPeriod == 0) interrupt = look() ? kInterrupt : 0;
        return popped;
    }

    __device__ __forceinline__ uint32_t told(uint32_t popped) { return popped | interrupt; }

    __device__ __forceinline__ void before_last_chunk(uint32_t tiles) {
        if ((tiles + 1) % kPeriod == 0) poll();
    }

    __device__ __forceinline__ void poll() {
        polled_at = static_cast<uint32_t>(ptx::mov_clock64());
        polled = ptx::ld_relaxed_gpu(events.flag);
    }

    // Looks at what was polled: whether it is newer. Either way the poll is old to the next one.
    __device__ __forceinline__ bool look() {
        const bool found = newer(polled, seen);
        if (__builtin_expect(found, 0)) observe(shared, polled);
        shared.old_at = polled_at;
        return found;
    }

    __device__ __forceinline__ bool interrupted(uint32_t task) { return (task & kInterrupt) != 0; }

    // The leader forgets its interruption, or the next tile would be interrupted for what was served.
    __device__ __forceinline__ void serve_now(const Window& window) {
        serve(work, events, shared, window, seen);
        seen = shared.generation;
        interrupt = 0;
    }

    // Polls without work until every scheduled event is served. Returns the deadlines hit.
    __device__ __forceinline__ uint32_t linger() {
#pragma unroll 1
        while (seen - events.first_generation != events.n_events) {
            __syncthreads();
            if (threadIdx.x == kLeader) shared.expired = !poll_until_newer();
            __syncthreads();
            if (shared.expired != 0) return 1;
            serve_now(Window(shared.queue.stages));
        }
        return 0;
    }

    __device__ __forceinline__ bool poll_until_newer() {
        const Deadline deadline{work.blocks[blockIdx.x + work.first_column].start_ns, events.deadline_ns};
        return wait_until(deadline, [&] {
            poll();
            return look();
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
