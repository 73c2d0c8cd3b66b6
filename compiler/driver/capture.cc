#include "driver/capture.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/settings.h"
#include "driver/derive.h"
#include "ir/bounds.h"

namespace tg::driver {
namespace {

constexpr u32 kNone = ~0u;

tgf::Dtype stored(DType d) {
  TG_CHECK(is_stored(d.kind), "not a dtype of a bundle: ", name(d));
  return tgf::Dtype(d.kind);
}

class Capture {
 public:
  Capture(const Graph& g, const Schedule& s, const KernelPlan& plan, std::span<const CompiledKernel> compiled)
      : g_(g),
        s_(s),
        plan_(plan),
        compiled_(compiled),
        constant_of_(g.constants.size(), kNone),
        buffer_of_(s.buffers.size(), kNone),
        input_of_(g.inputs.size(), 0),
        output_of_(g.outputs.size(), 0) {}

  bundle::BundleDesc run(const Target& target, std::vector<u32>* constant_of, bool unread) {
    for (UOp v : s_.vars) d_.vars.push_back({std::string(v.arg_str()), v.src(0).as_int(), v.src(1).as_int(), v.src(2).as_int()});
    // A pair of an output and an input that is state is neither to the caller.
    for (auto [out, in] : g_.state) {
      const Value& v = g_.inputs[in];
      i64 elems = 1;  // room for the largest sizes
      for (UOp d : v.dims) {
        elems *= most(d);
      }
      d_.states.push_back({v.name, g_.outputs[out].name, stored(v.dtype), u64(byte_size(v.dtype.kind, elems)), -1});
      input_of_[in] = output_of_[out] = kNone;
    }
    for (u32 i = 0; i < g_.inputs.size(); i++)
      if (input_of_[i] != kNone) input_of_[i] = u32(d_.inputs.size()), d_.inputs.push_back(signature(g_.inputs[i]));
    for (u32 i = 0; i < g_.outputs.size(); i++)
      if (output_of_[i] != kNone) output_of_[i] = u32(d_.outputs.size()), d_.outputs.push_back(signature(g_.outputs[i]));
    d_.targets.push_back({target.device, target.renderer, target.arch, target.needs});
    Kernels main{s_, plan_, compiled_, 0, std::vector<u32>(plan_.jobs.size(), kNone)};
    main_ = &main;
    for (const CompiledKernel& k : compiled_) d_.objects.push_back(bundle::Bytes::view(k.object));
    v_.targets = {0};
    buffers();
    v_.body = block(s_.steps);
    prepare(target);
    d_.variants.push_back(std::move(v_));
    // A constant that no kernel reads still belongs to the graph.
    for (u32 c = 0; unread && c < constant_of_.size(); c++)
      if (d_.constants[constant(c)].forms.empty()) form(c, Layout::row_major(g_.constants[c].dims));
    *constant_of = constant_of_;
    return std::move(d_);
  }

 private:
  i32 var_index(UOp v) const { return i32(std::find(s_.vars.begin(), s_.vars.end(), v) - s_.vars.begin()); }
  // An index expression of VARs for the runtime. `most`: its largest value.
  bundle::Expr expr(UOp u, std::optional<i64> most = {}) const {
    bundle::Expr e = bytecode(u);
    if (!e.is_constant()) e.most = most ? *most : bounds(u).hi;
    return e;
  }
  bundle::Expr bytecode(UOp u) const {
    using E = tgf::ExprOp;
    if (u.is_const()) return bundle::Expr(u.as_int());
    auto src = [&](size_t i) { return bytecode(u.src(i)); };
    auto two = [&](E op) { return bundle::Expr::op(op, src(0), src(1)); };
    switch (u.op()) {
      case Op::Var: return bundle::Expr::var(u32(var_index(u)));
      case Op::Add: return two(E::Add);
      case Op::Sub: return two(E::Sub);
      case Op::Mul: return two(E::Mul);
      case Op::FloorDiv: return two(E::FloorDiv);
      case Op::FloorMod: return two(E::FloorMod);
      case Op::Min: return two(E::Min);
      case Op::Max: return two(E::Max);
      case Op::Lt: return two(E::Lt);
      case Op::Le: return two(E::Le);
      case Op::Eq: return two(E::Eq);
      case Op::Ne: return two(E::Ne);
      case Op::And: return two(E::And);
      case Op::Or: return two(E::Or);
      case Op::Xor: return two(E::Xor);
      case Op::Shl: return two(E::Shl);
      case Op::Shr: return two(E::Shr);
      case Op::Neg: return bundle::Expr(0) - src(0);
      case Op::Not: return bundle::Expr::op(E::Eq, src(0), bundle::Expr(0));  // of a bool
      case Op::Cast: return src(0);
      case Op::Div: // sizes are not negative, where C's rounding is the floor
      case Op::Rem:
        if (bounds(u.src(0)).lo >= 0 && bounds(u.src(1)).lo > 0) return two(u.is(Op::Div) ? E::FloorDiv : E::FloorMod);
        break;
      case Op::Where: return bundle::Expr::select(src(0), src(1), src(2));
      default: break;
    }
    fail("the runtime cannot work out the size ", u.str(), ": it has a ", info(u.op()).name, "; fix its dimensions with --shape");
  }
  bundle::Signature signature(const Value& v) const {
    bundle::Signature s;
    s.name = v.name, s.dtype = stored(v.dtype);
    for (UOp d : v.dims) {
      bundle::Dim out;
      out.size = expr(d);
      if (d.is(Op::Var)) out.name = std::string(d.arg_str()), out.var = var_index(d);
      else if (!d.is_const()) out.name = d.str();
      s.dims.push_back(std::move(out));
    }
    return s;
  }

  // Those in the arena, each after the buffers that it lies upon.
  void buffers() {
    std::vector<u32> by_offset;
    for (u32 i = 0; i < s_.buffers.size(); i++)
      if (s_.buffers[i].offset >= 0) by_offset.push_back(i);
    std::stable_sort(by_offset.begin(), by_offset.end(), [&](u32 a, u32 b) { return s_.buffers[a].offset < s_.buffers[b].offset; });
    for (u32 i : by_offset) {
      const Buffer& b = s_.buffers[i];
      bundle::Buffer out;
      out.kind = b.kind == Buffer::Input    ? bundle::BufferKind::Input
                 : b.kind == Buffer::Output ? bundle::BufferKind::Output
                                            : bundle::BufferKind::Scratch;
      out.dtype = stored(b.dtype), out.bytes = expr(b.bytes_to_plan(g_), b.bytes);
      out.index = b.kind == Buffer::Input ? input_of_[b.index] : b.kind == Buffer::Output ? output_of_[b.index] : 0;
      out.align = u32(std::max(1, bits(b.dtype) / 8));
      for (u32 below : b.lies_on) out.lies_on.push_back(buffer_of_[below]);
      buffer_of_[i] = u32(v_.buffers.size());
      v_.buffers.push_back(out);
    }
    for (u32 i = 0; i < s_.buffers.size(); i++) {
      const Buffer& b = s_.buffers[i];
      if (b.kind != Buffer::State) continue;
      bundle::Buffer out;
      out.kind = bundle::BufferKind::State, out.dtype = stored(b.dtype), out.bytes = b.bytes, out.index = b.index;
      buffer_of_[i] = u32(v_.buffers.size());
      v_.buffers.push_back(out);
    }
  }

  // The bundle's constant for constant c of the graph.
  u32 constant(u32 c) {
    if (constant_of_[c] == kNone) {
      const ConstantData& k = g_.constants[c];
      constant_of_[c] = u32(d_.constants.size());
      d_.constants.push_back({k.name, stored(k.dtype), k.dims, {}});
    }
    return constant_of_[c];
  }
  u32 form(u32 c, const Layout& l) {
    const ConstantData& k = g_.constants[c];
    std::vector<bundle::Form>& forms = d_.constants[constant(c)].forms;
    bundle::Form f;
    f.dtype = stored(k.dtype);
    if (k.made_of) {
      f.layout = l.is_row_major(k.dims) ? "" : l.str();
      f.derived = true, f.bytes.size = u64(byte_size(k.dtype.kind, l.elems()));
    } else if (l.is_row_major(k.dims)) {
      f.bytes = bundle::Bytes::view(k.bytes);
    } else {
      f.layout = l.str();
      f.bytes = bundle::Bytes::lazy(u64(byte_size(k.dtype.kind, l.elems())),
                                    [&k, l](std::span<u8> to) { apply_layout(l, k.dims, bits(k.dtype) / 8, k.bytes.data(), to.data()); });
    }
    forms.push_back(std::move(f));
    return u32(forms.size() - 1);
  }
  u32 weight(u32 c, const Layout& l) {
    const ConstantData& k = g_.constants[c];
    auto [it, fresh] = weight_buffer_.try_emplace({c, l.is_row_major(k.dims) ? "" : l.str()}, u32(v_.buffers.size()));
    if (!fresh) return it->second;
    bundle::Buffer out;
    out.kind = bundle::BufferKind::Weight, out.dtype = stored(k.dtype), out.index = constant(c), out.form = form(c, l);
    if (k.made_of) derived_.push_back({c, l}), derived_buffer_.push_back(it->second);
    v_.buffers.push_back(out);
    return it->second;
  }

  // A schedule's kernels, whose machine code begins at first_object; program_of: by job.
  struct Kernels {
    const Schedule& s;
    const KernelPlan& plan;
    std::span<const CompiledKernel> compiled;
    u32 first_object;
    std::vector<u32> program_of;
  };
  u32 program(Kernels& x, size_t call) {
    const KernelPlan::Use& use = x.plan.uses[call];
    u32& program = x.program_of[use.job];
    if (program != kNone) return program;
    bundle::Program p;
    p.label = x.plan.names[use.job], p.entry = x.plan.jobs[use.job].entry, p.object = x.first_object + use.job;
    p.ints = u32(use.var_of.size());
    for (i64 slot : use.slot_of) p.params.push_back(slot < i64(x.s.calls[call].outputs) ? bundle::Access::ReadWrite : bundle::Access::Read);
    d_.programs.push_back(p);
    return program = u32(d_.programs.size() - 1);
  }

  // argument(buffer of the schedule, its layout in this kernel): the buffer of the variant.
  template <class Argument>
  bundle::Launch launch(Kernels& x, size_t call, Argument argument) {
    const Call& c = x.s.calls[call];
    const KernelPlan::Use& use = x.plan.uses[call];
    const CompiledKernel& k = x.compiled[use.job];
    bundle::Launch l;
    l.program = program(x, call);
    for (size_t s = 0; s < use.slot_of.size(); s++) l.args.push_back(argument(c.buffers[size_t(use.slot_of[s])], k.layouts[s]));
    l.grid = {bundle::Expr(k.tasks)};
    for (UOp v : use.var_of) l.ints.push_back(expr(v));
    l.flops = expr(use.work.flops, x.plan.work[use.job].flops), l.bytes = expr(use.work.bytes, x.plan.work[use.job].bytes);
    return l;
  }
  bundle::Launch launch(size_t call) {
    return launch(*main_, call, [&](u32 b, const Layout& l) {
      return s_.buffers[b].kind == Buffer::Constant ? weight(s_.buffers[b].index, l) : buffer_of_[b];
    });
  }

  // What fills the derived forms that the body reads.
  void prepare(const Target& target) {
    if (derived_.empty()) return;
    DerivedKernels k = derived_kernels(g_, derived_, target);
    Kernels kernels{k.sched, k.plan, k.compiled, u32(d_.objects.size()), std::vector<u32>(k.plan.jobs.size(), kNone)};
    for (CompiledKernel& c : k.compiled) d_.objects.push_back(bundle::Bytes::own(std::move(c.object)));
    std::vector<bundle::Step> launches;
    for (size_t call = 0; call < k.sched.calls.size(); call++)
      launches.push_back(launch(kernels, call, [&](u32 b, const Layout&) {
        const Buffer& x = k.sched.buffers[b];
        return x.kind == Buffer::Output ? derived_buffer_[x.index] : weight(k.from[x.index], Layout::row_major(x.dims));
      }));
    v_.prepare.emplace();
    batches(std::move(launches), &*v_.prepare);
  }

  bundle::Block block(const std::vector<Step>& steps) {
    bundle::Block b;
    std::vector<bundle::Step> launches;
    auto flush = [&] { batches(std::exchange(launches, {}), &b); };
    auto shared = [&](const std::vector<Step>& s) { return std::make_shared<bundle::Block>(block(s)); };
    for (const Step& x : steps) {
      if (x.kind != Step::Call) flush();
      switch (x.kind) {
        case Step::Call: launches.push_back(launch(x.call)); break;
        case Step::Read: b.commands.push_back(bundle::ReadVar{u32(var_index(x.var)), read_buffer(x.buffer), bundle::Expr(0)}); break;
        case Step::Set: b.commands.push_back(bundle::SetVar{u32(var_index(x.var)), expr(x.value)}); break;
        case Step::If: b.commands.push_back(bundle::If{expr(x.value), shared(x.then), shared(x.otherwise)}); break;
        case Step::While: b.commands.push_back(bundle::While{expr(x.value), shared(x.then), u64(x.most)}); break;
      }
    }
    flush();
    return b;
  }
  // A constant may be what says how often a loop runs.
  u32 read_buffer(u32 buffer) {
    const Buffer& b = s_.buffers[buffer];
    return b.kind == Buffer::Constant ? weight(b.index, Layout::row_major(b.dims)) : buffer_of_[buffer];
  }

  // A straight run, cut into batches that grow: the device starts early.
  void batches(std::vector<bundle::Step> steps, bundle::Block* to) {
    i64 most = settings::JIT_BATCH_SIZE();
    for (size_t at = 0; at < steps.size(); most *= 2) {
      size_t n = most == 0 ? steps.size() : std::min(size_t(most), steps.size() - at);
      bundle::Batch b;
      b.steps.assign(steps.begin() + i64(at), steps.begin() + i64(at + n));
      to->commands.push_back(std::move(b));
      at += n;
    }
  }

  const Graph& g_;
  const Schedule& s_;
  const KernelPlan& plan_;
  std::span<const CompiledKernel> compiled_;
  bundle::BundleDesc d_;
  bundle::Variant v_;
  std::vector<u32> constant_of_;                              // by constant of the graph
  std::vector<u32> buffer_of_;                                // by buffer of the schedule
  Kernels* main_ = nullptr;                                   // those of the body
  std::vector<u32> input_of_, output_of_;                     // the bundle's, by those of the graph; kNone: state
  std::map<std::pair<u32, std::string>, u32> weight_buffer_;  // (constant of the graph, layout) -> buffer of the variant
  std::vector<DerivedForm> derived_;                          // that the prepare block makes
  std::vector<u32> derived_buffer_;                           // of each, the buffer of the variant
};

}  // namespace

bundle::BundleDesc capture(const Graph& g, const Schedule& s, const KernelPlan& plan, std::span<const CompiledKernel> compiled,
                           const Target& target, std::vector<u32>* constant_of, bool unread) {
  return Capture(g, s, plan, compiled).run(target, constant_of, unread);
}

}  // namespace tg::driver
