#include "frontend/trees.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

namespace tg {
namespace {

// Steps from the roots to the farthest leaf; fails on cycles and on nodes that do not exist.
i64 depth(OnnxNode& n, const Trees& t) {
  std::vector<i64> deep(t.nodes.size(), -1), state(t.nodes.size());
  i64 most = 0;
  for (i64 root : t.roots) {
    std::vector<i64> stack{root};
    while (!stack.empty()) {
      i64 i = stack.back();
      n.require(i >= 0 && i < i64(t.nodes.size()), "a tree names a node that does not exist");
      const TreeNode& node = t.nodes[i];
      if (node.test == TreeNode::Leaf) {
        deep[i] = 0, state[i] = 2;
        stack.pop_back();
      } else if (state[i] == 0) {
        state[i] = 1;
        for (i64 c : {node.yes, node.no}) {
          n.require(c >= 0 && c < i64(t.nodes.size()), "a tree names a node that does not exist");
          n.require(state[c] != 1, "the nodes of a tree form a cycle");
          if (state[c] == 0) stack.push_back(c);
        }
      } else {
        if (state[i] == 1) deep[i] = 1 + std::max(deep[node.yes], deep[node.no]), state[i] = 2;
        stack.pop_back();
      }
    }
    most = std::max(most, deep[root]);
  }
  return most;
}

}  // namespace

Tensor walk(OnnxNode& n, const Trees& t, const Tensor& x, TreeSum how, DType d) {
  n.require(!t.roots.empty(), "the ensemble has no trees");
  n.require(x.rank() == 2, "input ", shape_text(x.shape()), " must be (rows, features)");
  i64 count = i64(t.nodes.size()), trees = i64(t.roots.size()), steps = depth(n, t), features = x.size(1);
  std::vector<i64> feature(count), yes(count), no(count), test(count), missing(count), leaf(count, 0);
  std::vector<f64> value(count);
  std::set<i64> tests;
  bool any_missing = false;
  i64 leaves = 0;
  for (i64 i = 0; i < count; i++) {
    const TreeNode& node = t.nodes[i];
    feature[i] = node.feature, value[i] = node.value, test[i] = node.test, missing[i] = node.missing_is_true;
    if (node.test == TreeNode::Leaf) {
      yes[i] = no[i] = i;
      feature[i] = 0;
      leaf[i] = leaves++;
    } else {
      n.require(node.feature >= 0 && node.feature < features, "a tree reads feature ", node.feature, ", the input has ", features);
      yes[i] = node.yes, no[i] = node.no;
      tests.insert(node.test);
      any_missing |= node.missing_is_true;
    }
  }
  auto table = [&](const std::vector<i64>& v) { return Tensor::of_ints(Kind::I32, Ints{count}, v); };
  Tensor at = Tensor::of_ints(Kind::I32, Ints{1, trees}, t.roots).expand(Shape{x.dim(0), idx(trees)});
  Tensor row = Tensor::arange(x.dim(0)).unsqueeze(1);
  Tensor values = Tensor::of(x.dtype(), Ints{count}, value);
  // Sets of members: (count, most), filled up with NaN, which equals nothing.
  size_t most = 0;
  for (const TreeNode& node : t.nodes) most = std::max(most, node.members.size());
  check_table(count, i64(most));
  std::vector<f64> members(count * most, std::numeric_limits<f64>::quiet_NaN());
  for (i64 i = 0; i < count; i++) std::ranges::copy(t.nodes[i].members, members.begin() + i * i64(most));
  for (i64 s = 0; s < steps; s++) {
    Tensor both[] = {row, table(feature).take(0, at)};
    Tensor v = x.gather(both), limit = values.take(0, at), goes;
    Tensor kind = tests.size() > 1 ? table(test).take(0, at) : Tensor();
    for (i64 k : tests) {
      Tensor r;
      switch (TreeNode::Test(k)) {
        case TreeNode::Leq: r = v.le(limit); break;
        case TreeNode::Lt: r = v.lt(limit); break;
        case TreeNode::Gte: r = v.ge(limit); break;
        case TreeNode::Gt: r = v.gt(limit); break;
        case TreeNode::Eq: r = v.eq(limit); break;
        case TreeNode::Neq: r = v.ne(limit) & v.is_nan().logical_not(); break;
        default:
          if (most == 0)
            r = v.ne(v) & v.eq(v);  // member of nothing
          else
            r = Tensor::of(x.dtype(), Ints{count, i64(most)}, members)
                    .take(0, at)
                    .eq(v.unsqueeze(-1))
                    .cast(Kind::I32)
                    .max(Ints{2}, false)
                    .ne(Tensor::scalar(Kind::I32, 0));
      }
      goes = goes ? where(kind.eq(Tensor::scalar(Kind::I32, f64(k))), r, goes) : r;
    }
    if (any_missing) goes = goes | (v.is_nan() & table(missing).take(0, at).ne(Tensor::scalar(Kind::I32, 0)));
    at = where(goes, table(yes).take(0, at), table(no).take(0, at)).contiguous();
  }
  // (leaves, targets)
  f64 inf = std::numeric_limits<f64>::infinity();
  f64 none = how == TreeSum::Min ? inf : how == TreeSum::Max ? -inf : 0;
  check_table(leaves, t.targets);
  std::vector<f64> weights(leaves * t.targets, none);
  for (i64 i = 0; i < count; i++)
    for (auto [target, w] : t.nodes[i].weights) {
      n.require(target >= 0 && target < t.targets, "a leaf names target ", target, " of ", t.targets);
      f64& e = weights[leaf[i] * t.targets + target];
      e = how == TreeSum::Min ? std::min(e, w) : how == TreeSum::Max ? std::max(e, w) : e + w;
    }
  Tensor each = Tensor::of(d, Ints{leaves, t.targets}, weights).take(0, table(leaf).take(0, at));  // (N, trees, targets)
  switch (how) {
    case TreeSum::Min: return each.min(Ints{1}, false);
    case TreeSum::Max: return each.max(Ints{1}, false);
    case TreeSum::Average: return each.sum(Ints{1}) / f64(trees);
    default: return each.sum(Ints{1});
  }
}

}  // namespace tg
