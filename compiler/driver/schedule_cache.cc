#include "driver/schedule_cache.h"

#include "base/cache.h"
#include "base/error.h"
#include "base/settings.h"
#include "driver/build_id.h"
#include "driver/target.h"
#include "ir/binary.h"
#include "schedule/steps.h"
#include "target/bytes.h"

namespace tg::driver {
namespace {

// Another build has another key, so the bytes have no version; but they must have every field.
struct BufferFields {
  Buffer::Kind kind;
  u32 index;
  DType dtype;
  Shape shape;
  std::vector<i64> dims;
  Layout layout;
  std::vector<i64> before, after;
  u64 fill;
  i64 bytes;
  std::vector<u32> lies_on;
  i64 offset;
};
struct CallFields {
  UOp ast;
  std::vector<u32> buffers;
  u32 outputs;
  std::string name;
  bool border;
  std::vector<i64> ordered;
};
static_assert(sizeof(Buffer) == sizeof(BufferFields), "Buffer has a new field: write and read it here");
static_assert(sizeof(Call) == sizeof(CallFields), "Call has a new field: write and read it here");
struct StepFields {
  Step::Kind kind;
  u32 call, buffer;
  UOp var, value;
  i64 most;
  std::vector<Step> then, otherwise;
};
static_assert(sizeof(Step) == sizeof(StepFields), "Step has a new field: write and read it here");
static_assert(sizeof(Schedule) ==
                  sizeof(std::shared_ptr<Arena>) + sizeof(std::vector<Buffer>) + sizeof(std::vector<Call>) + sizeof(std::vector<Step>) +
                      sizeof(std::vector<UOp>) + 2 * sizeof(i64),
              "Schedule has a new field: write and read it here");

std::vector<i64> wide(const std::vector<u32>& v) { return {v.begin(), v.end()}; }
std::vector<u32> thin(const std::vector<i64>& v) { return {v.begin(), v.end()}; }

void write_steps(Writer& w, const std::vector<Step>& steps, std::vector<UOp>& exprs) {
  w.num(i64(steps.size()));
  for (const Step& x : steps) {
    w.num(x.kind), w.num(x.call), w.num(x.buffer), w.num(x.most), w.num(bool(x.var)), w.num(bool(x.value));
    for (UOp u : {x.var, x.value})
      if (u) exprs.push_back(u);
    write_steps(w, x.then, exprs), write_steps(w, x.otherwise, exprs);
  }
}
std::vector<Step> read_steps(Reader& r, std::vector<std::pair<bool, bool>>& has) {
  std::vector<Step> steps(r.count());
  for (Step& x : steps) {
    x.kind = Step::Kind(r.num()), x.call = u32(r.num()), x.buffer = u32(r.num()), x.most = r.num();
    bool var = r.num() != 0, value = r.num() != 0;
    has.push_back({var, value});
    x.then = read_steps(r, has), x.otherwise = read_steps(r, has);
  }
  return steps;
}

Digest key_of(const Graph& g, const Target& t, const std::vector<Choice>& choices, std::span<const LayoutPick> layouts) {
  Hasher h;
  h.add(build_id()).add(target_text(t)).add(settings::code_key());
  std::vector<UOp> roots{g.sink};
  for (auto* values : {&g.inputs, &g.outputs})
    for (const Value& v : *values) h.add(v.name), roots.push_back(stack(v.dims));
  std::vector<u8> nodes = write_binary(roots);
  h.add(digest(std::span<const u8>(nodes)));
  for (auto [out, in] : g.state) h.add(u64(out)).add(u64(in));
  for (const MeasuredSize& m : g.measured) h.add(m.name).add(u64(m.min)).add(u64(m.max)).add(u64(m.multiple));
  for (const ConstantData& c : g.constants) h.add(digest(c.bytes));  // values, too: constants of one element become numbers
  for (const Choice& c : choices) h.add(u64(c.picked));
  for (const LayoutPick& p : layouts) h.add(u64(p.buffer)).add(u64(p.axis)).add(u64(p.panels));
  return h.done();
}

}  // namespace

std::vector<u8> write_schedule(const Schedule& s) {
  Writer w;
  w.num(s.arena_bytes), w.num(s.lower_bound_bytes);
  w.num(i64(s.buffers.size()));
  for (const Buffer& b : s.buffers) {
    w.num(b.kind), w.num(b.index), w.num(i64(b.dtype.kind)), w.nums(b.dims), w.layout(b.layout), w.nums(b.before), w.nums(b.after),
        w.num(i64(b.fill)), w.num(b.bytes);
    w.nums(wide(b.lies_on)), w.num(b.offset);
  }
  std::vector<UOp> asts;
  for (const Buffer& b : s.buffers) asts.push_back(stack(b.shape));
  asts.push_back(stack(s.vars));
  w.num(i64(s.calls.size()));
  for (const Call& c : s.calls) {
    asts.push_back(c.ast);
    w.nums(wide(c.buffers)), w.num(c.outputs), w.text(c.name), w.num(c.border), w.nums(c.ordered);
  }
  write_steps(w, s.steps, asts);
  w.blob(write_binary(asts));
  return std::move(w.out);
}

Schedule read_schedule(std::span<const u8> bytes, std::shared_ptr<Arena> arena) {
  Reader r{bytes, "a cached schedule"};
  Schedule s;
  s.arena = std::move(arena);
  s.arena_bytes = r.num(), s.lower_bound_bytes = r.num();
  s.buffers.resize(r.count());
  for (Buffer& b : s.buffers) {
    b.kind = Buffer::Kind(r.num()), b.index = u32(r.num()), b.dtype = Kind(r.num()), b.dims = r.nums(), b.layout = r.layout(),
    b.before = r.nums(), b.after = r.nums();
    b.fill = u64(r.num()), b.bytes = r.num(), b.lies_on = thin(r.nums()), b.offset = r.num();
  }
  s.calls.resize(r.count());
  for (Call& c : s.calls)
    c.buffers = thin(r.nums()), c.outputs = u32(r.num()), c.name = r.text(), c.border = r.num() != 0, c.ordered = r.nums();
  std::vector<std::pair<bool, bool>> has;  // a variable, a value: by step
  s.steps = read_steps(r, has);
  size_t exprs = 0;
  for (auto [var, value] : has) exprs += var + value;
  std::vector<UOp> asts = read_binary(r.blob());
  size_t n = s.buffers.size();
  if (asts.size() != n + 1 + s.calls.size() + exprs) fail(r.what, " is damaged");
  for (size_t i = 0; i < n; i++) s.buffers[i].shape.assign(asts[i].src().begin(), asts[i].src().end());
  s.vars.assign(asts[n].src().begin(), asts[n].src().end());
  for (size_t i = 0; i < s.calls.size(); i++) s.calls[i].ast = asts[n + 1 + i];
  size_t step = 0, at = n + 1 + s.calls.size();
  each_step(s.steps, [&](Step& x) {
    auto [var, value] = has[step++];
    if (var) x.var = asts[at++];
    if (value) x.value = asts[at++];
  });
  return s;
}

Schedule cached_schedule(const Graph& g, const Target& t, const std::vector<Choice>& choices, const Graph* chosen,
                         std::span<const LayoutPick> layouts) {
  if (!chosen) chosen = &g;
  if (!settings::SCACHE()) return schedule(*chosen, t, layouts);
  Digest key = key_of(g, t, choices, layouts);
  if (auto hit = cache::get("schedules", key)) return read_schedule(*hit, g.arena);
  Schedule s = schedule(*chosen, t, layouts);
  cache::put("schedules", key, write_schedule(s));
  return s;
}

}  // namespace tg::driver
