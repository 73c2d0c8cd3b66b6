// schedule() with a memory: SCACHE keeps schedules in CACHEDB.
#pragma once
#include "ir/graph.h"
#include "schedule/schedule.h"

namespace tg::driver {

// What schedule(g, t) gives, from the cache where it is there. Nodes are made in g's arena, which must be current.
Schedule cached_schedule(const Graph& g, const Target& t);

std::vector<u8> write_schedule(const Schedule& s);
Schedule read_schedule(std::span<const u8> bytes, std::shared_ptr<Arena> arena);  // which must be current

}  // namespace tg::driver
