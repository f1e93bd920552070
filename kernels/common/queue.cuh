// The persistent loop: blocks pop tiles from one counter until it runs dry.
//
// One barrier a chunk is all there is. The next task is popped during a tile's first chunk and its first chunk is copied
// during the tile's last one, so neither the queue nor the copy is waited for. A policy adds what a kernel does besides.
#pragma once

#include "tile.cuh"
#include "timer.cuh"

// What a block keeps in shared memory.
struct QueueShared {
    Stages stages;
    uint32_t next;  // Written by thread 0 in a tile's first chunk, read by all in its last: at least one barrier apart.
};

// A policy that does nothing. Others derive from it and hide what they change.
struct PlainPolicy {
    // Takes the next task; thread 0 only.
    __device__ __forceinline__ uint32_t pop(const WorkArgs& work) { return ptx::atom_add_relaxed_gpu(work.queue, 1); }
    // All threads, at a tile's start: every warp is there and no copy is in flight. True when it used the stages.
    __device__ __forceinline__ bool at_boundary(uint32_t, const Window&) { return false; }
    // Thread 0, before it multiplies a tile's last chunk.
    __device__ __forceinline__ void before_last_chunk(uint32_t) {}
    // Thread 0, after a tile's outputs were issued.
    __device__ __forceinline__ void after_tile(uint32_t) {}
};

// Works until the queue is empty. Returns the number of tiles this block executed.
template <class Policy>
__device__ __forceinline__ uint32_t drain_queue(const WorkArgs& work, QueueShared& shared, Policy& policy) {
    const Window window(shared.stages);
    const bool leader = threadIdx.x == 0;
    if (leader) shared.next = policy.pop(work);
    __syncthreads();
    uint32_t task = shared.next;
    uint32_t tiles = 0;
    uint32_t stage = 0;
    Source source = source_of(work.a, work.b, work.k_chunks, task);
    if (task < work.tasks) copy_chunk(window, stage, source);
#pragma unroll 1
    while (task < work.tasks) {
        await_copies();
        if (policy.at_boundary(tiles, window)) {
            __syncthreads();
            copy_chunk(window, stage, source);
            await_copies();
        }
        Accumulator sum;
        sum.clear();
        uint32_t next = 0;
        uint32_t popped = 0;
        if (leader) popped = policy.pop(work);
        uint32_t left = work.k_chunks;
#pragma unroll 1
        for (;;) {
            const bool first = left == work.k_chunks;
            --left;
            bool more = true;
            if (left == 0) {
                next = shared.next;
                more = next < work.tasks;
                source = source_of(work.a, work.b, work.k_chunks, next);
                if (leader) policy.before_last_chunk(tiles);
            } else {
                source.advance();
            }
            if (more) copy_chunk(window, other(stage), source);
            sum.multiply(window, stage);
            stage = other(stage);
            if (first && leader) shared.next = popped;
            if (left == 0) break;
            await_copies();
        }
        sum.store(work.c + static_cast<uint64_t>(task) * kTileFloats);
        ++tiles;
        if (leader) {
            ptx::red_add_relaxed_gpu(work.executions + task, 1);
            policy.after_tile(tiles);
            sample_window(work, tiles);
        }
        task = next;
    }
    return tiles;
}

// Adds a block's site counts to the launch's; thread 0 only, once.
__device__ __forceinline__ void count_sites(const WorkArgs& work, uint32_t tiles, uint32_t yields, uint32_t claims) {
    ptx::red_add_relaxed_gpu(&work.sites->copies, static_cast<uint64_t>(tiles + claims) * work.k_chunks);
    if (yields != 0) ptx::red_add_relaxed_gpu(&work.sites->yields, yields);
    if (claims != 0) ptx::red_add_relaxed_gpu(&work.sites->claims, claims);
}
