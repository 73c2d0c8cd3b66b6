// Applies rule tables to a graph until nothing changes.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ir/id_map.h"
#include "ir/pattern.h"

namespace tg {

// Rules in order, indexed by the op of their root; the first that matches wins. a + b: the rules of a, then those of b. Tables are static;
// sets are made once, in a function-local static.
class RuleSet {
 public:
  struct Ref {
    const pat::Rule* rule = nullptr;
    std::string_view table;
    int row = 0;
    std::string name() const;  // "symbolic[17]"
  };
  RuleSet() = default;
  RuleSet(std::string_view table, std::span<const pat::Rule> rules);
  RuleSet operator+(const RuleSet& o) const;

  const std::vector<Ref>& rules() const { return rules_; }
  // What the first matching rule makes of u, or null. m.context is set by the caller.
  UOp apply(UOp u, pat::Match& m, Ref* by = nullptr) const;

 private:
  struct Entry {
    OpSet need;  // ops that the sources must have
    u32 rule;
  };
  void add(const Ref& r);
  std::vector<Ref> rules_;
  std::vector<Entry> by_op_[kOps];
};

// Every step, for VIZ and debugging.
struct Trace {
  struct Step {
    RuleSet::Ref by;
    UOp before, after;
  };
  std::vector<Step> steps;
};

enum class Order : u8 {
  BottomUp,  // a node after its sources; results are visited again until nothing matches
  TopDown,   // a node, to a fixed point, before its sources; the rebuilt node is not visited again
  Once,      // a node after its sources, one rule at most; results are not visited
};

struct RewriteOptions {
  std::string_view name = "rules";   // for messages
  Order order = Order::BottomUp;
  Trace* trace = nullptr;
  IdMap<UOp>* memo = nullptr;        // normal forms known from earlier calls with the same rules and context; extended
  OpSet leaves;                      // ops whose sources are not entered
  u64 max_steps = 50'000'000;
  void* context = nullptr;
  const void* context_type = nullptr;

  template <class T>
  RewriteOptions& ctx(T& c) {  // what rules read as m.ctx<T>()
    context = &c, context_type = &pat::Match::type_key<T>;
    return *this;
  }
};

// Throws Error if the rules do not come to an end, naming those that undo each other.
UOp rewrite(UOp root, const RuleSet& rules, const RewriteOptions& options = {});

}  // namespace tg
