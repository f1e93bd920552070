// The 64 x 64 fp32 tile: C = A * B with A and B stored k-major, so that a chunk of the inner dimension is contiguous.
//
// A block of 128 threads stages one chunk of A and B (8 KiB) by 16-byte asynchronous copies while it multiplies the one
// before. Each thread owns 8 x 4 outputs. Lanes are laid out so that neighbours share an A or a B address: a 16-byte shared
// load then needs two passes a warp instead of four.
#pragma once

#include "abi.cuh"
#include "ptx.cuh"

constexpr uint32_t kTile = 64;       // Rows and columns of C; `oracle::TILE`.
constexpr uint32_t kChunk = 16;      // Inner elements staged at once; `schema::plan::K_CHUNK`.
constexpr uint32_t kPoolA = 16;      // Distinct A tiles; `oracle::POOL_A`.
constexpr uint32_t kPoolB = 16;      // Distinct B tiles; `oracle::POOL_B`.
constexpr uint32_t kThreads = 128;   // Threads in a block.
constexpr uint32_t kStages = 2;      // Chunks in shared memory.
constexpr uint32_t kRows = 8;        // Outputs of a thread: rows ...
constexpr uint32_t kCols = 4;        // ... and columns.
constexpr uint32_t kRowGap = 16;     // A thread's rows are two groups of four, this far apart.
constexpr uint32_t kWarpTile = 32;   // A warp covers 32 x 32 outputs.
constexpr uint32_t kChunkFloats = kChunk * kTile;
constexpr uint32_t kTileFloats = kTile * kTile;
constexpr uint32_t kCopyFloats = 4;  // Floats in a 16-byte copy.

static_assert(kThreads * kRows * kCols == kTileFloats, "the threads of a block own every output once");
static_assert(kChunkFloats == 2 * kThreads * kCopyFloats, "each thread copies 16 bytes twice from each operand");

// One chunk of both operands.
struct Stage {
    float a[kChunkFloats];
    float b[kChunkFloats];
};
constexpr uint32_t kStageBytes = sizeof(Stage);
constexpr uint32_t kOperandBytes = kChunkFloats * sizeof(float);

// The stages a block works on. Thread addresses are computed once and kept in registers; a stage is an offset to them.
struct Stages {
    Stage stage[kStages];
};

// The other of the two stages.
__device__ __forceinline__ uint32_t other(uint32_t stage) { return stage ^ kStageBytes; }

// Where a thread's outputs lie in the tile.
struct Place {
    uint32_t row;
    uint32_t col;
};

__device__ __forceinline__ Place place() {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t row_in_warp = (lane & 1) | ((lane >> 2) & 2);         // Lane bits 0 and 3.
    const uint32_t col_in_warp = ((lane >> 1) & 3) | ((lane >> 2) & 4);  // Lane bits 1, 2 and 4.
    return {(warp & 1) * kWarpTile + row_in_warp * 4, (warp >> 1) * kWarpTile + col_in_warp * kCols};
}

// A thread's addresses in the first stage: what it copies, and what it multiplies.
struct Window {
    uint32_t copy;
    uint32_t a;
    uint32_t b;

    __device__ __forceinline__ explicit Window(const Stages& stages) {
        const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(&stages));
        const Place at = place();
        copy = ptx::mov_b32(base + threadIdx.x * kCopyFloats * sizeof(float));
        a = ptx::mov_b32(base + at.row * sizeof(float));
        b = ptx::mov_b32(base + kOperandBytes + at.col * sizeof(float));
    }
};

// Where a thread copies from: its first 16 bytes of the next chunk of each operand.
struct Source {
    const float* a;
    const float* b;

    __device__ __forceinline__ void advance() {
        a += kChunkFloats;
        b += kChunkFloats;
    }
};

// The operands of pair `index`, as `oracle::Pair::at` numbers them.
__device__ __forceinline__ Source source_of(const float* a, const float* b, uint32_t k_chunks, uint32_t index) {
    const uint32_t mine = threadIdx.x * kCopyFloats;
    const uint32_t tile_floats = k_chunks * kChunkFloats;
    return {a + (index % kPoolA) * tile_floats + mine, b + (index / kPoolA % kPoolB) * tile_floats + mine};
}

// The 32-bit finaliser of MurmurHash3; `oracle::mix`.
__device__ __forceinline__ uint32_t mix(uint32_t h) {
    h ^= h >> 16;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    h *= 0xC2B2AE35u;
    return h ^ (h >> 16);
}

// The pair of an urgent tile; `oracle::Pair::of_urgent`.
__device__ __forceinline__ uint32_t urgent_pair(uint32_t event_id, uint32_t tile) {
    return mix(event_id * 0x9E3779B9u + tile * 0x85EBCA6Bu) % (kPoolA * kPoolB);
}

// Starts the copies of a chunk into the stage at offset `stage`.
__device__ __forceinline__ void copy_chunk(const Window& window, uint32_t stage, const Source& source) {
    constexpr uint32_t kSecond = kThreads * kCopyFloats * sizeof(float);
    const uint32_t to = window.copy + stage;
    ptx::cp_async_cg_16<0, 0>(to, source.a);
    ptx::cp_async_cg_16<kSecond, kSecond>(to, source.a);
    ptx::cp_async_cg_16<kOperandBytes, 0>(to, source.b);
    ptx::cp_async_cg_16<kOperandBytes + kSecond, kSecond>(to, source.b);
}

// A thread's outputs.
struct Accumulator {
    float c[kRows][kCols];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (uint32_t row = 0; row < kRows; ++row) {
#pragma unroll
            for (uint32_t col = 0; col < kCols; ++col) c[row][col] = 0.0f;
        }
    }

    // Adds the product of the chunk in the stage at offset `stage`.
    __device__ __forceinline__ void multiply(const Window& window, uint32_t stage) {
        multiply_from<0>(window.a + stage, window.b + stage);
    }

    template <uint32_t kFirst>
    __device__ __forceinline__ void multiply_from(uint32_t a, uint32_t b) {
        constexpr uint32_t kRow = kFirst * kTile * sizeof(float);
        const float4 upper = ptx::ld_shared_v4<kRow>(a);
        const float4 lower = ptx::ld_shared_v4<kRow + kRowGap * sizeof(float)>(a);
        const float4 right = ptx::ld_shared_v4<kRow>(b);
        const float rows[kRows] = {upper.x, upper.y, upper.z, upper.w, lower.x, lower.y, lower.z, lower.w};
        const float cols[kCols] = {right.x, right.y, right.z, right.w};
#pragma unroll
        for (uint32_t row = 0; row < kRows; ++row) {
#pragma unroll
            for (uint32_t col = 0; col < kCols; ++col) c[row][col] = fmaf(rows[row], cols[col], c[row][col]);
        }
        if constexpr (kFirst + 1 < kChunk) multiply_from<kFirst + 1>(a, b);
    }

    // Writes the thread's outputs into its tile: whole 128-byte lines a warp.
    __device__ __forceinline__ void store(float* tile) const {
        const Place at = place();
        float* first = tile + at.row * kTile + at.col;
#pragma unroll
        for (uint32_t row = 0; row < kRows; ++row) {
            const uint32_t line = row % 4 + row / 4 * kRowGap;
            *reinterpret_cast<float4*>(first + line * kTile) = make_float4(c[row][0], c[row][1], c[row][2], c[row][3]);
        }
    }
};

// Waits for this thread's copies and for the block: afterwards every warp may read what was copied.
__device__ __forceinline__ void await_copies() {
    ptx::cp_async_wait_all();
    __syncthreads();
}

// Computes a whole tile by itself, with nothing prefetched before and nothing left in flight afterwards.
// The block must have finished reading the stages; it has finished reading them again once it passes its next barrier.
__device__ __forceinline__ void compute_tile(const Window& window, Source source, uint32_t k_chunks, float* tile) {
    Accumulator sum;
    sum.clear();
    uint32_t stage = 0;
    copy_chunk(window, stage, source);
#pragma unroll 1
    for (uint32_t chunk = 0; chunk < k_chunks; ++chunk) {
        await_copies();
        if (chunk + 1 < k_chunks) {
            source.advance();
            copy_chunk(window, other(stage), source);
        }
        sum.multiply(window, stage);
        stage = other(stage);
    }
    sum.store(tile);
}
