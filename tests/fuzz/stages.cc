#include "stages.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/settings.h"
#include "codegen/lower.h"
#include "compiled.h"
#include "ir/canonical.h"
#include "ir/eval_kernel.h"
#include "ir/eval_linear.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "opt/kernel.h"
#include "opt/prepare.h"
#include "plan.h"
#include "schedule/choice.h"
#include "schedule/store_choice.h"
#include "schedule/schedule.h"
#include "search/moves.h"

namespace tg::fuzz {
namespace {

std::string g_now, g_ran;
void runs(const Call& call, const std::string& opts) {
  g_now = call.name + " [" + opts + "]\n" + print(call.ast);
  g_ran += "  " + call.name + " [" + opts + "]\n";
}

// What is scheduled. With WINO=1 every convolution that can be F(2,3) is, with WINO=2 in one kernel where it can: its transforms halve and quarter small
// integers, which is exact. Attention is one kernel wherever it can be, but for ATTENTION=0.
// With A16W8=1 sums by bytes are of two bytes an activation wherever that is legal, if this machine has the instruction. With SPLIT=1 sums are in parts,
// with JOIN=1 products of one activation are one.
u32 convolution(const std::vector<Alternative>& all) {
  u32 picked = 0;
  for (u32 i = 1; i < all.size() && settings::WINO() > 0; i++)
    if (all[i].tile == 2 && (!all[i].joined || settings::WINO() == 2)) picked = i;
  return picked;
}
Graph chosen_graph(const Case& c) {
  std::vector<Choice> choices = find_choices(c.graph, host());
  for (Choice& x : choices) switch (x.kind) {
      case Choice::Convolution: x.picked = convolution(x.alternatives); break;
      case Choice::Attention: x.picked = 1; break;
      case Choice::Bytes: x.picked = settings::A16W8() == 1; break;
      case Choice::Sum: x.picked = settings::SPLIT() == 1; break;
      case Choice::Store: x.picked = 0; break;  // below
      case Choice::Products: x.picked = settings::JOIN() == 1; break;
    }
  Graph g = with_choices(c.graph, host(), choices);
  if (settings::JOIN() == 1) {  // every second value that is stored or not by a rule is otherwise
    Arena::Scope scope(*g.arena);
    std::vector<StoredOrNot> all = stored_or_not(g);
    for (size_t i = 0; i < all.size(); i += 2) store_otherwise(all[i].value, !all[i].stored);
  }
  return g;
}

// The sizes of a buffer in this run, as far as they are known yet.
std::vector<i64> sizes(const Buffer& b, const Vars& vars) {
  std::vector<i64> d;
  EvalEnv env;
  env.vars = vars;
  for (UOp u : toposort(b.shape))
    if (u.is(Op::Var) && std::none_of(vars.begin(), vars.end(), [&](auto& x) { return x.first == u.arg_str(); })) env.vars.push_back({std::string(u.arg_str()), u.src(0).as_int()});
  for (UOp n : b.shape) d.push_back(eval_index(n, env));
  return d;
}
// What nothing writes shows: no kernel makes these numbers.
Values unwritten(const Buffer& b, const std::vector<i64>& d) {
  return {b.dtype, d, std::vector<u64>(size_t(count(d)), is_float(b.dtype) ? 0x40c81c8000000000 : u64(wrap_int(b.dtype.kind, 85)))};
}
// Buffers whose sizes change from round to round are new ones in each.
void resize(const Schedule& s, const Call& call, const Vars& vars, std::vector<Values>& mem) {
  for (u32 b : call.buffers)
    if (s.buffers[b].kind == Buffer::Scratch && s.buffers[b].is_free())
      if (std::vector<i64> d = sizes(s.buffers[b], vars); d != mem[b].dims) mem[b] = unwritten(s.buffers[b], d);
}
// How a buffer of these sizes lies: free axes have one piece, of the size that they have in the run.
Layout lies(Layout l, const Buffer& b, std::span<const i64> sizes) {
  for (LayoutPiece& p : l.pieces)
    if (!b.shape[size_t(p.axis)].is_const()) p.factor = sizes[size_t(p.axis)];
  return l;
}

std::vector<Values> start(const Schedule& s, const Case& c, const Graph& g) {
  std::vector<Values> mem;
  for (const Buffer& b : s.buffers) {
    if (b.kind == Buffer::Input) mem.push_back(c.inputs[b.index]);
    else if (b.kind == Buffer::Constant) {
      const ConstantData& k = g.constants[b.index];
      mem.push_back(decode(k.dtype, k.dims, k.bytes));
    } else {
      mem.push_back(unwritten(b, sizes(b, c.vars)));
    }
  }
  return mem;
}

std::vector<Values> outputs(const Schedule& s, const Case& c, const std::vector<Values>& mem) {
  std::vector<Values> out(c.graph.outputs.size());
  for (size_t i = 0; i < s.buffers.size(); i++)
    if (s.buffers[i].kind == Buffer::Output) out[s.buffers[i].index] = mem[i];
  return out;
}

// The border of a buffer, which lowering makes its producer store.
void fill_border(const Buffer& b, Values& v) {
  for (i64 i = 0; i < v.elems(); i++) {
    bool border = false;
    i64 rest = i;
    for (size_t a = v.dims.size(); a-- > 0;) {
      i64 at = rest % v.dims[a];
      rest /= v.dims[a];
      border |= at < b.before[a] || at >= v.dims[a] - b.after[a];
    }
    if (border) v.v[size_t(i)] = b.fill;
  }
}

// Runs the steps; call(c, variables) is one kernel.
template <class F>
void run_steps(const Schedule& s, const std::vector<Step>& steps, Vars& vars, const std::vector<Values>& mem, const F& call) {
  auto value = [&](UOp u) {
    EvalEnv env;
    env.vars = vars;
    return eval_index(u, env);
  };
  auto set = [&](UOp var, i64 n) {
    if (n < var.src(0).as_int() || n > var.src(1).as_int()) fail("variable ", var.arg_str(), " is ", n);
    for (auto& [name, v] : vars)
      if (name == var.arg_str()) return void(v = n);
    vars.push_back({std::string(var.arg_str()), n});
  };
  for (const Step& x : steps) switch (x.kind) {
      case Step::Call: call(s.calls[x.call], vars); break;
      case Step::Read: set(x.var, i64(mem[x.buffer].v[0])); break;
      case Step::Set: set(x.var, value(x.value)); break;
      case Step::If: run_steps(s, value(x.value) ? x.then : x.otherwise, vars, mem, call); break;
      case Step::While:
        for (i64 rounds = 0; value(x.value);) {
          if (rounds++ >= x.most) fail("a loop runs more than ", x.most, " rounds");
          run_steps(s, x.then, vars, mem, call);
        }
        break;
    }
}

// Runs the calls one after another; run(call, buffers, variables) is one kernel.
template <class F>
std::vector<Values> run_calls(const Case& c, F run) {
  Target target;
  Graph g = chosen_graph(c);
  Schedule s = schedule(g, target);
  if (std::string bad = plan_fault(s); !bad.empty()) fail("memory plan: ", bad);
  if (std::string bad = plan_fault_at(s, g, c.vars); !bad.empty()) fail("memory plan: ", bad);
  std::vector<Values> mem = start(s, c, g);
  Vars vars = c.vars;
  run_steps(s, s.steps, vars, mem, [&](const Call& call, const Vars& vars) {
    std::vector<Values> bufs;
    resize(s, call, vars, mem);
    for (u32 b : call.buffers) bufs.push_back(mem[b]);
    try {
      run(call, bufs, vars);
    } catch (const Error& e) {
      fail(call.name, ": ", e.what(), "\n", print(call.ast));
    }
    if (call.border) fill_border(s.buffers[call.buffers[0]], bufs[0]);
    for (size_t i = 0; i < call.buffers.size(); i++)
      if (i < call.outputs) mem[call.buffers[i]] = std::move(bufs[i]);
      else if (!(mem[call.buffers[i]] == bufs[i])) fail(call.name, " writes buffer ", i, ", but says it writes ", call.outputs, "\n", print(call.ast));
  });
  return outputs(s, c, mem);
}

std::vector<Values> scheduled(const Case& c) {
  return run_calls(c, [&](const Call& call, std::vector<Values>& bufs, const Vars& known) {
    if (std::string bad = violation(Spec::Kernel, call.ast); !bad.empty()) fail(bad);
    eval_kernel(call.ast, bufs, known);
  });
}

// The canonical copy, from its text in another arena, as a worker process sees it.
std::vector<Values> canonical_form(const Case& c) {
  return run_calls(c, [&](const Call& call, std::vector<Values>& bufs, const Vars& known) {
    Canonical k = canonical(call.ast);
    Arena other;
    Arena::Scope scope(other);
    UOp ast = parse(print(k.ast));
    if (canonical(ast).digest != k.digest) fail("the digest changes when the canonical kernel is made canonical again");
    std::vector<Values> mine;
    for (i64 slot : k.slot_of) mine.push_back(bufs[size_t(slot)]);
    Vars vars;
    for (size_t v = 0; v < k.var_of.size(); v++)
      for (auto& [name, n] : known)
        if (k.var_of[v].arg_str() == name) vars.push_back({str("v", v), n});
    eval_kernel(ast, mine, vars);
    for (size_t i = 0; i < mine.size(); i++) bufs[size_t(k.slot_of[i])] = std::move(mine[i]);
  });
}

// --- codegen ----------------------------------------------------------------------------------------------------------------------------
// Where a logical element lies, worked out by hand: the digits of an axis are its pieces, most significant first.
i64 position(const Layout& l, std::span<const i64> dims, i64 logical) {
  std::vector<i64> at(dims.size());
  for (size_t a = dims.size(); a-- > 0;) at[a] = logical % dims[a], logical /= dims[a];
  std::vector<i64> digit(l.pieces.size());
  for (size_t i = l.pieces.size(); i-- > 0;) {
    i64& rest = at[size_t(l.pieces[i].axis)];
    digit[i] = rest % l.pieces[i].factor, rest /= l.pieces[i].factor;
  }
  i64 p = 0;
  for (size_t i = 0; i < l.pieces.size(); i++) p = p * l.pieces[i].factor + digit[i];
  return p;
}
Values physical(const Values& v, const Layout& l) {
  Values r{v.dtype, {l.elems()}, std::vector<u64>(size_t(l.elems()))};
  for (i64 i = 0; i < v.elems(); i++) r.v[size_t(position(l, v.dims, i))] = v.v[size_t(i)];
  return r;
}
void to_logical(const Values& p, const Layout& l, Values& v) {
  for (i64 i = 0; i < v.elems(); i++) v.v[size_t(i)] = p.v[size_t(position(l, v.dims, i))];
}

Kernel kernel_of(const Schedule& s, const Call& c) {
  Kernel k;
  k.ast = c.ast, k.ordered = c.ordered, k.target = &host();
  for (u32 b : c.buffers) {
    Slot slot;
    if (!k.slots.empty() || c.border) slot.before = s.buffers[b].before, slot.after = s.buffers[b].after, slot.fill = s.buffers[b].fill;
    slot.layout = s.buffers[b].layout, slot.dims = s.buffers[b].dims;
    slot.constant = s.buffers[b].kind == Buffer::Constant && bits(s.buffers[b].dtype) >= 8;
    k.slots.push_back(slot);
  }
  return k;
}

// Up to `most` Opts that the kernel takes, the same ones for the same kernel.
i64 chance_whole(std::mt19937_64& rng, const Axis& a, i64 arg) { return a.size > 1 && a.size <= 16 && rng() % 4 == 0 ? a.size : arg; }
Kernel random_opts(Kernel k, i64 most) {
  std::string text = print(k.ast);
  std::mt19937_64 rng(hash64(text));
  auto pick = [&](i64 lo, i64 hi) { return lo + i64(rng() % u64(hi - lo + 1)); };
  constexpr OptKind kKinds[] = {OptKind::Upcast, OptKind::Vector, OptKind::Unroll, OptKind::Thread, OptKind::Swap, OptKind::PadTo, OptKind::Tile, OptKind::Pack, OptKind::Peel, OptKind::Keep, OptKind::Tc, OptKind::Stage, OptKind::Few, OptKind::Trim, OptKind::Bypass, OptKind::Prefetch};
  constexpr i64 kArgs[] = {2, 2, 3, 4, 4, 5, 7, 8, 16};
  i64 want = pick(1, most);
  if (pick(0, 1)) k = prepare(std::move(k));
  for (int tries = 0; tries < 20 + 5 * most && i64(k.opts.size()) < want; tries++) {
    std::vector<Axis> all = axes(k.ast);
    if (all.empty()) break;
    auto axis = [&]() -> const Axis& { return all[size_t(pick(0, i64(all.size()) - 1))]; };
    Opt o;
    o.kind = kKinds[pick(0, std::size(kKinds) - 1)];
    const Axis &a = axis(), &b = axis();
    o.target = a.id, o.part = u8(a.part), o.arg = chance_whole(rng, a, kArgs[pick(0, std::size(kArgs) - 1)]);
    if (o.kind == OptKind::Swap) o.arg = b.id, o.arg2 = b.part;
    if (o.kind == OptKind::Keep) o.target = 0, o.part = 0, o.arg = i64(pick(0, 1) ? RowPlace::Stack : RowPlace::Out);
    if (o.kind == OptKind::Tc) o.arg = pick(0, 3);
    if (o.kind == OptKind::Trim) o.arg = 0;
    if (names_slot(o.kind)) o.target = pick(0, i64(k.slots.size()) - 1), o.part = 0, o.arg = 0;
    if (Result<Kernel> r = k.with(o)) k = *r;
  }
  return k;
}

Kernel with_random_opts(Kernel k) { return random_opts(std::move(k), 4); }
Kernel with_many_opts(Kernel k) { return random_opts(std::move(k), 14); }

// A walk of a few steps over what the search tries, the same one for the same kernel.
Kernel with_moves(Kernel k) {
  k = prepare(std::move(k));
  std::mt19937_64 rng(hash64(print(k.ast)) + 1);
  Kernel now = k;
  for (i64 steps = 1 + i64(rng() % 4), tries = 0; steps > 0 && tries < 40; tries++) {
    auto lists = now.opts.empty() && rng() % 2 ? templates(k, {}) : moves(k, now.opts, {});
    if (lists.empty()) break;
    const std::vector<Opt>& l = lists[rng() % lists.size()];
    Result<Kernel> n = finish(k, l);
    if (!n || copies(*n) > 64) continue;
    now = *n, steps--;
  }
  return now;
}

using Change = Kernel (*)(Kernel);
Kernel plain(Kernel k) { return k; }
Kernel chosen(Kernel k) { return heuristics(prepare(std::move(k))); }  // as the driver does

// The kernel with its VARs called v0, v1.., as code expects them; vars: their values.
UOp numbered(UOp ast, const Vars& known, Vars* vars) {
  std::vector<std::pair<UOp, UOp>> map;
  for (UOp u : toposort(ast)) {
    if (!u.is(Op::Var)) continue;
    std::string name = str("v", vars->size());
    for (auto& [n, v] : known)
      if (n == u.arg_str()) vars->push_back({name, v});
    map.push_back({u, var(name, u.src(0).as_int(), u.src(1).as_int(), u.src(2).as_int())});
  }
  return map.empty() ? ast : substitute(ast, map);
}

// run(kernel, buffers in memory order).
template <class F>
std::vector<Values> run_lowered(const Case& c, Change change, F run) {
  Target target = host();
  Graph g = chosen_graph(c);
  Schedule s = schedule(g, target);
  std::vector<Values> mem = start(s, c, g);
  Vars now = c.vars;
  run_steps(s, s.steps, now, mem, [&](const Call& call, const Vars& known) {
    resize(s, call, known, mem);
    Kernel k = kernel_of(s, call);
    Vars vars;
    k.ast = numbered(k.ast, known, &vars);
    std::string doing = "opts";
    try {
      k = change(std::move(k));
      std::vector<Values> bufs;
      for (size_t i = 0; i < call.buffers.size(); i++) bufs.push_back(physical(mem[call.buffers[i]], lies(k.slots[i].layout, s.buffers[call.buffers[i]], mem[call.buffers[i]].dims)));
      doing = opts_text(k.opts);
      runs(call, doing);
      run(k, bufs, vars);
      for (size_t i = 0; i < call.outputs; i++) {
        Values& v = mem[call.buffers[i]];
        to_logical(bufs[i], lies(k.slots[i].layout, s.buffers[call.buffers[i]], v.dims), v);
      }
    } catch (const Error& e) {
      fail(call.name, " [", doing, "]: ", e.what(), "\n", print(call.ast));
    }
  });
  return outputs(s, c, mem);
}

// Kernels after Opts, still in logical coordinates.
std::vector<Values> opted(const Case& c) {
  return run_calls(c, [&](const Call& call, std::vector<Values>& bufs, const Vars& known) {
    Kernel k;
    k.ast = call.ast, k.ordered = call.ordered, k.target = &host();
    for (const Values& v : bufs) {
      Slot slot;
      slot.layout = Layout::row_major(v.dims), slot.dims = v.dims;
      k.slots.push_back(slot);
    }
    k = with_random_opts(std::move(k));
    runs(call, opts_text(k.opts));
    if (std::string bad = violation(Spec::Kernel, k.ast); !bad.empty()) fail("[", opts_text(k.opts), "] ", bad);
    try {
      eval_kernel(k.ast, bufs, known);
    } catch (const Error& e) {
      fail("[", opts_text(k.opts), "] ", e.what());
    }
  });
}

void interpret(const Kernel& k, std::vector<Values>& bufs, const Vars& vars) {
  Lowered low = lower(k);
  if (std::string bad = violation(low.linear); !bad.empty()) fail(bad, "\n", print_list(low.linear));
  try {
    // Each task alone, from what was there before: none may need what another has done, or store where another does.
    for (Values& v : bufs) v = decode(v.dtype, v.dims, encode(v));  // as memory holds it: f16 has no 12345
    const std::vector<Values> before = bufs;
    for (i64 t = 0; t < low.tasks; t++) {
      std::vector<Values> mine = before;
      eval_linear(low.linear, mine, vars, t);
      for (size_t b = 0; b < mine.size(); b++)
        for (size_t i = 0; i < mine[b].v.size(); i++)
          if (u64 v = mine[b].v[i]; v != before[b].v[i]) {
            if (bufs[b].v[i] != before[b].v[i] && bufs[b].v[i] != v) fail("two tasks store element ", i, " of buffer ", b);
            bufs[b].v[i] = v;
          }
    }
  } catch (const Error& e) {
    fail(e.what(), "\n", print_list(low.linear));
  }
}
std::vector<Values> linear(const Case& c) { return run_lowered(c, plain, interpret); }
std::vector<Values> linear_opts(const Case& c) { return run_lowered(c, with_random_opts, interpret); }
std::vector<Values> linear_heuristics(const Case& c) { return run_lowered(c, chosen, interpret); }

// --- machine code -----------------------------------------------------------------------------------------------------------------------
void execute(const Kernel& k, std::vector<Values>& bufs, const Vars& vars) {
  Lowered low = lower(k);
  std::vector<i64> ints;
  for (auto& [name, n] : vars) ints.push_back(n);
  run_compiled(low.linear, low.tasks, *k.target, bufs, ints);
}
std::vector<Values> native(const Case& c) { return run_lowered(c, plain, execute); }
std::vector<Values> native_opts(const Case& c) { return run_lowered(c, with_random_opts, execute); }
std::vector<Values> native_heuristics(const Case& c) { return run_lowered(c, chosen, execute); }

std::vector<Values> linear_moves(const Case& c) { return run_lowered(c, with_moves, interpret); }
std::vector<Values> native_moves(const Case& c) { return run_lowered(c, with_moves, execute); }

std::vector<Values> linear_many(const Case& c) { return run_lowered(c, with_many_opts, interpret); }
std::vector<Values> native_many(const Case& c) { return run_lowered(c, with_many_opts, execute); }

const Target& target_of(const char* arch, const char* renderer) {
  static std::map<std::string, Target> known;
  auto it = known.find(str(arch, renderer));
  if (it != known.end()) return it->second;
  Result<Target> r = cpu_target(arch, renderer);
  if (!r) fail(r.why());
  return known.emplace(str(arch, renderer), *r).first->second;
}
template <const Target& (*target)()>
Kernel chosen_for(Kernel k) {
  k.target = &target();
  return chosen(std::move(k));
}
const Target& through_clang() { return target_of("native", "CLANG"); }
// Smaller vectors than this machine has, and no fused multiply-add.
const Target& baseline() {
#if defined(__aarch64__)
  return target_of("arm64", "LLVM");
#else
  return target_of("x86_64", "LLVM");
#endif
}
const Target& avx2() { return target_of("x86_64,haswell", "LLVM"); }
std::vector<Values> on_clang(const Case& c) { return run_lowered(c, chosen_for<through_clang>, execute); }
std::vector<Values> on_baseline(const Case& c) { return run_lowered(c, chosen_for<baseline>, execute); }
std::vector<Values> on_avx2(const Case& c) { return run_lowered(c, chosen_for<avx2>, execute); }

constexpr Stage kStages[] = {
    {"schedule", scheduled},       {"canonical", canonical_form},       {"opts", opted},
    {"linear", linear},            {"linear-opts", linear_opts},        {"linear-heuristics", linear_heuristics},
    {"native", native},            {"native-opts", native_opts},        {"native-heuristics", native_heuristics},
    {"native-moves", native_moves}, {"linear-moves", linear_moves, true},
    {"linear-many", linear_many, true}, {"native-many", native_many, true},
    {"clang", on_clang, true},     {"baseline", on_baseline, true},     {"avx2", on_avx2, true},
};

}  // namespace

bool round_rows(Case& c, std::vector<Values>* want) {
  constexpr f64 kNear = 0.05, kSame = 2e-3;  // of the largest result: from the exact sums; between orders of what follows them
  std::vector<Choice> choices = find_choices(c.graph, host());
  if (settings::A16W8() != 1 || std::none_of(choices.begin(), choices.end(), [](const Choice& x) { return x.alternatives[1].name == "A16W8"; })) return false;
  Graph g = chosen_graph(c);
  std::vector<Values> rounded = eval_graph(g, c.inputs, c.vars);
  std::vector<UOp> all = toposort(c.graph.sink);  // a number a little below 3 is 2 as an integer
  bool truncates = std::any_of(all.begin(), all.end(), [](UOp u) { return u.is(Op::Cast) && is_float(u.src(0).dtype()) && !is_float(u.dtype()); });
  for (size_t i = 0; i < rounded.size(); i++) {
    f64 largest = 1;
    for (i64 e = 0; e < (*want)[i].elems(); e++) largest = std::max(largest, std::abs((*want)[i].number(e)));
    if (std::string bad = difference(rounded[i], (*want)[i], kNear * largest); !truncates && !bad.empty()) fail("rounded rows, output ", i, ": ", bad);
    c.error[i] = kSame * largest;
  }
  *want = std::move(rounded);
  return true;
}

std::span<const Stage> stages() { return kStages; }
const char* now_running() { return g_now.c_str(); }
std::string take_ran() { return std::exchange(g_ran, {}); }

}  // namespace tg::fuzz
