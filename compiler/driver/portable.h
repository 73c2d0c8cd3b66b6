// The part of a bundle that only the compiler reads: the tensor graph, whose constants are the bundle's, and each target's kernels as they
// were shaped. `retune` schedules again from the graph; the kernels are for people and for later searches.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "driver/kernels.h"
#include "ir/graph.h"

namespace tg::driver {

// A graph a variant. constant_of: for each constant of a graph, the bundle's.
std::vector<u8> write_graphs(std::span<const Graph* const> graphs, std::span<const std::span<const u32>> constant_of);

// The graphs of a bundle, one a variant, each in an arena of its own, their constants row-major. `loaded` must outlive them. A stripped or
// damaged bundle is an Error.
std::vector<Graph> read_graphs(const bundle::Loaded& loaded, const std::string& path);

// The graph as it reads back from its bytes: what is scheduled, so that compile and retune see one order of nodes.
Graph copy_graph(const Graph& g);

struct ShapedKernel {
  std::string name, entry, opts, ast;
  i64 tasks = 1, launches = 0;
  std::vector<std::string> dims, layouts;  // by slot, outputs first
};
std::vector<u8> write_kernels(const KernelPlan& plan, std::span<const CompiledKernel> compiled);
std::vector<ShapedKernel> read_kernels(std::span<const u8> bytes);

}  // namespace tg::driver
