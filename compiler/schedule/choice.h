// Choices: values of the graph that can be made by several lists of kernels. find_choices() lists them with what each alternative costs and errs
// by, and picks; with_choices() writes the picked alternatives into the graph that is scheduled. The graph that a bundle carries stays as it was.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "target/target.h"

namespace tg {

struct Alternative {
  std::string name;   // "direct", "F(2,3)", "F(4,3)"
  f64 cycles = 0;     // by the cost model, on one core; where the choice is how many cores find work, a mean over some
  f64 error = 0;      // beyond that of the plain sum: a bound on the largest error over the largest result, formats/README.md
  i64 tile = 0;       // of a convolution: f of F(f, 3), 0: direct
  bool joined = false;  // in one kernel
};

struct Choice {
  enum Kind : u8 { Convolution, Attention, Bytes, Products, Sum, Store } kind = Convolution;
  UOp value;                              // a node of the graph
  std::string label;                      // "conv 3x3 64->64 at 56x56"
  std::vector<Alternative> alternatives;  // the first is the graph as it stands
  u32 picked = 0;
  std::string str() const;                // one line for people
};

// Every choice of the graph, sources first; picked as WINO says. Search changes `picked` and schedules again.
std::vector<Choice> find_choices(const Graph& g, const Target& target);

// The graph with the picked alternatives in place. It shares g's arena; its constants are g's, then those that the alternatives need.
// derive: those that are made of others are left to the runtime (ConstantData::made_of).
Graph with_choices(const Graph& g, const Target& target, const std::vector<Choice>& choices, bool derive = false);

}  // namespace tg
