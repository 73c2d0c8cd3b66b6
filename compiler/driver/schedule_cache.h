// schedule() with a memory: SCACHE keeps schedules in CACHEDB.
#pragma once
#include "ir/graph.h"
#include "schedule/choice.h"
#include "schedule/layout_choice.h"
#include "schedule/schedule.h"

namespace tg::driver {

// What schedule() gives for g, or for `chosen`, which is g with these choices in place; from the cache where it is there. Nodes are made in g's
// arena, which must be current.
Schedule cached_schedule(const Graph& g, const Target& t, const std::vector<Choice>& choices = {}, const Graph* chosen = nullptr,
                         std::span<const LayoutPick> layouts = {});

std::vector<u8> write_schedule(const Schedule& s);
Schedule read_schedule(std::span<const u8> bytes, std::shared_ptr<Arena> arena);  // which must be current

}  // namespace tg::driver
