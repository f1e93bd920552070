// Each block's record: its begin and end, and readings of its SM's clock in between.
#pragma once

#include "abi.cuh"
#include "timer.cuh"

// Begins a block's record; thread 0 only. Returns the block's start.
__device__ __forceinline__ uint64_t begin_block(const WorkArgs& work) {
    const uint32_t column = blockIdx.x + work.first_column;
    const uint64_t start_ns = ptx::mov_globaltimer();
    work.blocks[column].start_ns = start_ns;
    work.blocks[column].sm = ptx::mov_smid();
    if (work.host_started != nullptr && ptx::atom_add_relaxed_gpu(work.arrivals, 1) == 0) {
        ptx::st_release_sys(work.host_started, 1);
    }
    sample_clock(&work.clock[static_cast<uint64_t>(column) * work.clock_capacity]);
    return start_ns;
}

// Reads the clock after every 2^clock_shift tiles, while there is room for one more reading at the end; one thread.
__device__ __forceinline__ void sample_window(const WorkArgs& work, uint32_t tiles) {
    const uint32_t window = tiles >> work.clock_shift;
    if (window << work.clock_shift == tiles && window + 1 < work.clock_capacity) {
        const uint64_t first = static_cast<uint64_t>(blockIdx.x + work.first_column) * work.clock_capacity;
        sample_clock(&work.clock[first + window]);
    }
}

// Ends a block's record once every warp is done; thread 0 only, behind a barrier.
__device__ __forceinline__ void end_block(const WorkArgs& work, uint32_t tiles, uint32_t deadline_hits) {
    const uint32_t column = blockIdx.x + work.first_column;
    const uint32_t windows = min(tiles >> work.clock_shift, work.clock_capacity - 2);
    sample_clock(&work.clock[static_cast<uint64_t>(column) * work.clock_capacity + windows + 1]);
    BlockRecord& record = work.blocks[column];
    record.executed = tiles;
    record.clock_samples = windows + 2;
    record.deadline_hits = deadline_hits;
    record.end_ns = ptx::mov_globaltimer();
    if (work.host_done != nullptr && ptx::atom_add_acq_rel_gpu(work.departures, 1) == gridDim.x - 1) {
        ptx::st_release_sys(work.host_done, 1);
    }
}
