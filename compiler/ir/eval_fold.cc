#include "ir/eval_fold.h"

#include "base/error.h"
#include "ir/eval_scalar.h"

namespace tg {

FoldBody::FoldBody(UOp fold) {
  FoldArg a = fold.arg<FoldArg>();
  step_ = compile(fold.src().subspan(a.inputs + a.states, a.states));
  merge_ = compile(fold.src().subspan(a.inputs + 2 * a.states, a.states));
}

FoldBody::Program FoldBody::compile(std::span<const UOp> roots) {
  Program p;
  Memo<u32> at;
  for (UOp u : toposort(roots)) {
    if (!u.is_const() && !u.is(Op::Placeholder) && !is_elementwise(u.op())) fail("the interpreter has no ", info(u.op()).name, " in a FOLD: ", u.str());
    at[u] = u32(p.code.size());
    Instr i{u, {}};
    for (UOp s : u.src()) i.src.push_back(at[s]);
    p.code.push_back(std::move(i));
  }
  for (UOp r : roots) p.results.push_back(at[r]);
  return p;
}

void FoldBody::run(const Program& p, std::span<const u64> in, std::span<const u64> state, std::span<const u64> side1) {
  regs_.resize(p.code.size());
  for (size_t i = 0; i < p.code.size(); i++) {
    UOp u = p.code[i].node;
    const std::vector<u32>& s = p.code[i].src;
    if (u.is_const()) regs_[i] = u.arg_bits();
    else if (u.is(Op::Placeholder)) {
      PlaceholderArg a = u.arg<PlaceholderArg>();
      std::span<const u64> from = a.role == PlaceholderArg::Input ? in : a.role == PlaceholderArg::Side1 ? side1 : state;
      if (a.index < 0 || a.index >= i64(from.size())) fail("no value of ", u.str());
      regs_[i] = from[a.index];
    } else if (u.is(Op::Cast)) regs_[i] = eval_cast(u.dtype().kind, u.src(0).dtype().kind, regs_[s[0]]);
    else if (u.is(Op::Bitcast)) regs_[i] = eval_bitcast(u.dtype().kind, u.src(0).dtype().kind, regs_[s[0]]);
    else if (u.is(Op::Lookup)) regs_[i] = eval_lookup(u.arg_ints(), regs_[s[0]]);
    else {
      u64 x[3] = {};
      for (size_t k = 0; k < s.size(); k++) x[k] = regs_[s[k]];
      regs_[i] = eval_alu(u.op(), u.src(u.is(Op::Where) ? 1 : 0).dtype(), std::span(x, s.size()));
    }
  }
  out_.clear();
  for (u32 r : p.results) out_.push_back(regs_[r]);
}

void FoldBody::step(std::span<const u64> in, std::vector<u64>& state) {
  run(step_, in, state, {});
  state = out_;
}
void FoldBody::merge(std::vector<u64>& side0, std::span<const u64> side1) {
  run(merge_, {}, side0, side1);
  side0 = out_;
}

}  // namespace tg
