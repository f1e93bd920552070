// The flag: one unsigned generation on a line of its own, set by one thread, polled by one thread of every other block.
//
// Generations wrap. Event e of a launch is generation first + e + 1, and "newer" is a signed difference.
#pragma once

#include "abi.cuh"
#include "ptx.cuh"
#include "tile.cuh"
#include "timer.cuh"

__device__ __forceinline__ bool newer(uint32_t generation, uint32_t than) {
    return static_cast<int32_t>(generation - than) > 0;
}

// Whether the launch's delay is planted in this event; `schema::plan::delayed_event`. A hash rather than every other event:
// what follows a delayed event differs from what follows another.
__device__ __forceinline__ bool delayed_event(uint32_t event) { return (mix(event) & 1) != 0; }

// Spends the launch's delay if it is planted in this leg of this event. Returns what was spent. An event without the delay
// spends none in the very same code, so that the two differ in nothing else.
__device__ __forceinline__ uint32_t plant(const EventArgs& events, DelayLeg leg, uint32_t event) {
    if (events.delay_leg != leg) return 0;
    return spin(delayed_event(event) ? events.delay_ns : 0);
}

__device__ __forceinline__ void record_spent(const EventArgs& events, uint32_t event, uint32_t ns) {
    ptx::red_max_relaxed_gpu(events.delay_spent_ns + event, ns);
}

// As `plant`, and records what was spent.
__device__ __forceinline__ void plant_recorded(const EventArgs& events, DelayLeg leg, uint32_t event) {
    if (events.delay_leg == leg) record_spent(events, event, plant(events, leg, event));
}

// Waits until event `event` is due. False when the deadline came first.
__device__ __forceinline__ bool await_due(const EventArgs& events, const Deadline& deadline, uint32_t event) {
    if (events.set_mode == kSetHost) {
        const bool issued = wait_until(deadline, [&] { return newer(ptx::ld_acquire_sys(events.host_issued), event); });
        if (issued) plant_recorded(events, kLegHostToSet, event);
        return issued;
    }
    if (events.storm == 0) spin(events.gaps_ns[event]);
    return true;
}

// Waits until every observer is ready for `event` and its urgent tiles are done. False when the deadline came first.
__device__ __forceinline__ bool await_served(const EventArgs& events, const Deadline& deadline, uint32_t event) {
    return wait_until(deadline, [&] {
        return ptx::ld_acquire_gpu(events.ready_count + event) == events.observers &&
               ptx::ld_acquire_gpu(events.urgent_finished + event) == events.urgent_tiles;
    });
}

// Sets the flag for every event of the schedule; one thread of the launch. Returns the deadlines hit.
//
// With host-set events `host_completed` says how far we are: 1 once every block is there, one more for each event served.
// The fence comes before the timestamp: with the relaxed store behind it, it is the release, and its cost stays out of the
// interval from the set instant on.
__device__ __forceinline__ uint32_t set_flags(const EventArgs& events, const Deadline& deadline) {
    if (!wait_until(deadline, [&] { return ptx::ld_acquire_gpu(events.checked_in) == events.observers; })) return 1;
    if (events.set_mode == kSetHost) ptx::st_release_sys(events.host_completed, 1);
    for (uint32_t event = 0; event < events.n_events; ++event) {
        if (!await_due(events, deadline, event)) return 1;
        ptx::fence_acq_rel_gpu();
        const uint64_t set_ns = ptx::mov_globaltimer();
        const uint32_t spent_ns = plant(events, kLegSetToObserved, event);
        ptx::st_relaxed_gpu(events.flag, events.first_generation + event + 1);
        if (events.delay_leg == kLegSetToObserved) record_spent(events, event, spent_ns);
        events.set_ns[event] = set_ns;
        if (events.storm != 0) continue;
        if (!await_served(events, deadline, event)) return 1;
        if (events.set_mode == kSetHost) ptx::st_release_sys(events.host_completed, event + 2);
    }
    return 0;
}
