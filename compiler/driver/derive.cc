#include "driver/derive.h"

#include <map>

#include "base/error.h"
#include "driver/schedule_cache.h"
#include "ir/text.h"
#include "schedule/realize.h"

namespace tg::driver {
namespace {

// The value over PARAMs in place of CONSTANTs; `from` says which.
class Closer {
 public:
  explicit Closer(const Graph& g) : g_(g) {}
  std::vector<u32> from;
  std::vector<UOp> params;

  UOp close(UOp root) {
    std::vector<std::pair<UOp, UOp>> map;
    for (UOp u : toposort(root)) {
      if (!u.is(Op::Constant)) continue;
      UOp& param = param_[u.arg_int()];
      if (!param) {
        TG_CHECK(!g_.constants[size_t(u.arg_int())].made_of, "a constant is made of one that is made itself");
        from.push_back(u32(u.arg_int()));
        params.push_back(param = tensor::param(i64(params.size()), u.dtype(), shape(u)));
      }
      map.push_back({u, param});
    }
    return substitute(root, map);
  }

 private:
  const Graph& g_;
  std::map<i64, UOp> param_;  // by constant
};

}  // namespace

DerivedKernels derived_kernels(const Graph& g, const std::vector<DerivedForm>& forms, const Target& target) {
  Arena::Scope scope(*g.arena);
  Closer c(g);
  Graph sub;
  sub.arena = g.arena;
  std::vector<UOp> values;
  for (const DerivedForm& f : forms) {
    values.push_back(c.close(g.constants[f.constant].made_of));
    sub.outputs.push_back({str("f", values.size()), values.back().dtype(), shape(values.back())});
  }
  // Each is one kernel.
  for (UOp v : values)
    for (UOp p : c.params) keep_in_kernel(v, p);
  sub.sink = node(Op::Sink, Kind::Void, std::span<const UOp>(values));
  for (size_t i = 0; i < c.params.size(); i++) sub.inputs.push_back({str("c", i), c.params[i].dtype(), shape(c.params[i])});

  DerivedKernels k;
  k.from = c.from;
  k.sched = cached_schedule(sub, target);
  for (Buffer& b : k.sched.buffers) {
    TG_CHECK(b.kind == Buffer::Input || b.kind == Buffer::Output, "what makes a weight at open takes several kernels");
    if (b.kind == Buffer::Output) b.layout = forms[b.index].layout, b.bytes = byte_size(b.dtype.kind, b.layout.elems());
  }
  for (Call& call : k.sched.calls) call.name = "weights_" + call.name;
  k.plan = plan_kernels(k.sched, target);
  k.compiled = compile_kernels(k.plan, target);
  return k;
}

Digest constant_key(const Graph& g, size_t c) {
  const ConstantData& d = g.constants[c];
  Hasher h;
  h.add(u64(d.dtype.kind)).add(u64(d.dims.size()));
  for (i64 n : d.dims) h.add(u64(n));
  if (!d.made_of) return h.add(digest(d.bytes)).done();
  Arena::Scope scope(*g.arena);
  Closer closer(g);
  h.add(print(closer.close(d.made_of)));
  for (u32 from : closer.from) h.add(constant_key(g, from));
  return h.done();
}

}  // namespace tg::driver
