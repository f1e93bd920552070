// What every experiment's blocks leave behind, and what the timer kernels take; `harness/core/src/gpu/abi.rs` holds the same
// layouts.
#pragma once

#include <cstdint>

// What each block leaves behind.
struct BlockRecord {
    uint64_t start_ns;
    uint64_t end_ns;
    uint32_t sm;
    uint32_t executed;
    uint32_t clock_samples;
    uint32_t deadline_hits;
};
static_assert(sizeof(BlockRecord) == 32, "the host reads 32 bytes a block");

// One reading of an SM's clock beside the global timer.
struct ClockSample {
    uint64_t cycles;
    uint64_t ns;
};
static_assert(sizeof(ClockSample) == 16, "the host reads 16 bytes a sample");

// The ping-pong between block 0 and every other block. `replies` holds two words a block: sequence and padding.
struct OffsetArgs {
    uint32_t* checked_in;
    uint32_t* calls;
    uint32_t* replies;
    uint64_t* reply_ns;
    int64_t* offset_ns;
    uint32_t* rtt_ns;
    BlockRecord* blocks;
    uint64_t deadline_ns;
    uint32_t rounds;
    uint32_t stride;
};
static_assert(sizeof(OffsetArgs) == 72, "seven pointers, a deadline and two words");

// The search for the timer's step.
struct QuantumArgs {
    uint32_t* quantum_ns;
    BlockRecord* blocks;
    uint32_t reads;
    uint32_t reserved;
};
static_assert(sizeof(QuantumArgs) == 24, "two pointers and two words");
