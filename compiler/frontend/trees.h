// Tree ensembles as tables of nodes, and the graph that walks them.
#pragma once
#include "frontend/onnx_op.h"

namespace tg {

struct TreeNode {
  enum Test : u8 { Leq, Lt, Gte, Gt, Eq, Neq, Member, Leaf } test = Leaf;
  i64 feature = 0;
  f64 value = 0;  // Member: unused
  std::vector<f64> members;
  bool missing_is_true = false;              // where a NaN goes
  i64 yes = -1, no = -1;                     // indices of nodes
  std::vector<std::pair<i64, f64>> weights;  // of a leaf: (target, weight)
};
struct Trees {
  std::vector<TreeNode> nodes;
  std::vector<i64> roots;
  i64 targets = 1;
};
enum class TreeSum : u8 { Sum, Average, Min, Max };

// x (N, features) of a float dtype; gives (N, targets) in d, before base values and post transforms. All trees take one step at a time, as
// many as the deepest has; leaves stay where they are.
Tensor walk(OnnxNode& n, const Trees& t, const Tensor& x, TreeSum how, DType d);

}  // namespace tg
