// Turns a variant of the bundle into what a run needs: the block tree as straight code, the expressions as one list, each batch recorded on
// its device; plans memory for the present variables; and executes.
#include <stdio.h>
#include <string.h>

#include "formats/expr.h"
#include "runtime-lite/src/model.h"
#include "runtime-lite/src/os.h"

namespace tgb {

int64_t evaluate(const fb::Expr* e, const int64_t* vars) {
  if (!e) return 0;
  if (!e->code()) return e->value();
  int64_t value;
  return tgf::expr_eval(e->code()->data(), e->code()->size(), vars, &value) ? value : kUnknown;
}

namespace {

// Walks the blocks twice: once to count, once to write.
struct Builder {
  tgb_model* m;
  OpenVariant* v;
  bool write;
  uint32_t n_values, n_varying, n_steps, n_batches, n_commands, n_loops;
  bool sets_vars;

  uint32_t value(const fb::Expr* e) {
    if (write) v->exprs[n_values] = e;
    if (e && e->code()) {
      if (write) v->varying[n_varying] = n_values;
      n_varying++;
    }
    return n_values++;
  }
  uint32_t command(Command::Kind kind, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, uint64_t most = 0) {
    if (write) v->commands[n_commands] = {kind, a, b, c, most};
    return n_commands++;
  }
  void land(uint32_t jump) {
    if (write) v->commands[jump].c = n_commands;
  }
  void step(const fb::Batch& batch, uint32_t i);
  void batch(const fb::Batch& x);
  void block(const fb::Block* b);
};

void Builder::step(const fb::Batch& batch, uint32_t i) {
  StepDesc d = {};
  StepNote note = {"copy", kNone, kNone};
  if (batch.steps_type()->Get(i) == fb::Step::Launch) {
    const fb::Launch& l = *batch.steps()->GetAs<fb::Launch>(i);
    const fb::Program& p = *m->b->programs()->Get(l.program());
    note.name = (p.label() ? p.label() : p.entry())->c_str();
    d.kernel = m->kernels[l.program()];
    d.args = l.args() ? l.args()->data() : nullptr, d.n_args = count(l.args());
    d.ints = n_values, d.n_ints = count(l.ints());
    for (uint32_t k = 0; k < d.n_ints; k++) value(l.ints()->Get(k));
    d.n_grid = count(l.grid());
    for (uint32_t k = 0; k < d.n_grid; k++) d.grid[k] = value(l.grid()->Get(k));
    for (uint32_t k = 0; k < 3; k++) d.block[k] = k < count(l.block()) ? l.block()->Get(k) : 1;
    d.local_bytes = p.local_bytes();
    if (l.flops()) note.flops = value(l.flops());
    if (l.bytes()) note.bytes = value(l.bytes());
    if (write)
      for (uint32_t k = 0; k < d.n_args; k++) v->written[d.args[k]] |= (uint8_t(p.params()->Get(k)) & 2) != 0;
  } else {
    const fb::Copy& c = *batch.steps()->GetAs<fb::Copy>(i);
    d.from = c.from(), d.to = c.to();
    d.from_offset = value(c.from_offset()), d.to_offset = value(c.to_offset()), d.bytes = value(c.bytes());
    note.bytes = d.bytes;
    if (write) v->written[d.to] = 1;
  }
  if (write) v->steps[n_steps] = d, v->notes[n_steps] = note;
  n_steps++;
}

void Builder::batch(const fb::Batch& x) {
  OpenBatch b = {};
  b.device = x.device(), b.steps = n_steps, b.values = n_values;
  for (uint32_t i = 0; i < count(x.steps()); i++) step(x, i);
  b.n_steps = n_steps - b.steps, b.n_values = n_values - b.values;
  if (write) v->batches[n_batches] = b;
  command(Command::Batch, n_batches++);
}

void Builder::block(const fb::Block* b) {
  for (uint32_t i = 0; b && i < count(b->commands()); i++) switch (b->commands_type()->Get(i)) {
      case fb::Command::Batch: batch(*b->commands()->GetAs<fb::Batch>(i)); break;
      case fb::Command::ReadVar: {
        const fb::ReadVar& c = *b->commands()->GetAs<fb::ReadVar>(i);
        sets_vars = true;
        uint32_t offset = value(c.offset());
        command(Command::ReadVar, c.var(), c.buffer(), offset);
        break;
      }
      case fb::Command::SetVar: {
        const fb::SetVar& c = *b->commands()->GetAs<fb::SetVar>(i);
        sets_vars = true;
        uint32_t to = value(c.value());
        command(Command::SetVar, c.var(), to);
        break;
      }
      case fb::Command::If: {
        const fb::If& c = *b->commands()->GetAs<fb::If>(i);
        uint32_t unless = command(Command::JumpUnless, value(c.cond()));
        block(c.then());
        uint32_t over = command(Command::Jump);
        land(unless);
        block(c.otherwise());
        land(over);
        break;
      }
      default: {  // While: the check lets nothing else through
        const fb::While& c = *b->commands()->GetAs<fb::While>(i);
        uint32_t loop = n_loops++;
        command(Command::Enter, loop);
        uint32_t top = n_commands, unless = command(Command::JumpUnless, value(c.cond()));
        command(Command::Count, loop, 0, 0, c.most());
        block(c.body());
        command(Command::Jump, 0, 0, top);
        land(unless);
      }
    }
}

}  // namespace

OpenDevice* device_of(tgb_model* m, const OpenVariant& v, uint32_t index) {
  for (uint32_t i = 0; i < m->n_devices; i++)
    if (m->devices[i].target == v.v->targets()->Get(index)) return &m->devices[i];
  return nullptr;
}

static bool in_arena(const fb::Buffer& b) { return b.kind() != fb::BufferKind::Weight && b.kind() != fb::BufferKind::State; }

static uint64_t buffer_align(const fb::Buffer& b) { return b.align() > tgf::kBufferAlign ? b.align() : tgf::kBufferAlign; }

uint64_t arena_bytes(const fb::Variant& v, uint32_t device, const int64_t* vars, int64_t* ends) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < count(v.buffers()); i++) {
    const fb::Buffer& b = *v.buffers()->Get(i);
    ends[i] = 0;
    if (!in_arena(b) || b.device() != device) continue;
    uint64_t offset = 0;
    for (uint32_t k = 0; k < count(b.lies_on()); k++)
      if (uint64_t(ends[b.lies_on()->Get(k)]) > offset) offset = uint64_t(ends[b.lies_on()->Get(k)]);
    uint64_t end = align_up(offset, buffer_align(b)) + uint64_t(vars ? evaluate(b.bytes(), vars) : b.bytes()->value());
    if (end > uint64_t(1) << 62) end = uint64_t(1) << 62;  // no machine has it: the allocation fails
    ends[i] = int64_t(end);
    if (end > most) most = end;
  }
  return most;
}

tgb_status open_variant(tgb_model* m, OpenVariant* v) {
  const fb::Variant& x = *v->v;
  uint32_t n = v->n_buffers = count(x.buffers());
  v->table = take<Mem>(m, n);
  v->bytes = take<int64_t>(m, n), v->offsets = take<int64_t>(m, n);
  v->written = take<uint8_t>(m, n);
  v->input_buffer = take<uint32_t>(m, m->n_inputs), v->output_buffer = take<uint32_t>(m, m->n_outputs);
  if (!v->table || !v->bytes || !v->offsets || !v->written || !v->input_buffer || !v->output_buffer) return TGB_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < m->n_inputs; i++) v->input_buffer[i] = kNone;
  for (uint32_t i = 0; i < m->n_outputs; i++) v->output_buffer[i] = kNone;
  bool varies = false;
  for (uint32_t i = 0; i < n; i++) {
    const fb::Buffer& b = *x.buffers()->Get(i);
    varies |= b.bytes()->code() != nullptr;
    uint32_t* slot = b.kind() == fb::BufferKind::Input    ? &v->input_buffer[b.index()]
                     : b.kind() == fb::BufferKind::Output ? &v->output_buffer[b.index()]
                                                          : nullptr;
    if (slot && *slot != kNone) return fail(m, TGB_BAD_BUNDLE, "buffer %u: an input or output has two buffers", i);
    if (slot) *slot = i;
  }
  for (uint32_t i = 0; i < m->n_outputs; i++)
    if (v->output_buffer[i] == kNone) return fail(m, TGB_BAD_BUNDLE, "output '%s' has no buffer", m->outputs[i].s->name()->c_str());
  Builder counted = {};
  for (uint32_t pass = 0; pass < 2; pass++) {
    Builder b = {};
    b.m = m, b.v = v, b.write = pass == 1;
    if (pass == 1) {
      v->exprs = take<const fb::Expr*>(m, counted.n_values), v->values = take<int64_t>(m, counted.n_values);
      v->varying = take<uint32_t>(m, counted.n_varying);
      v->steps = take<StepDesc>(m, counted.n_steps), v->notes = take<StepNote>(m, counted.n_steps);
      v->batches = take<OpenBatch>(m, counted.n_batches);
      v->commands = take<Command>(m, counted.n_commands);
      v->rounds = take<uint64_t>(m, counted.n_loops);
      if (!v->exprs || !v->values || !v->varying || !v->steps || !v->notes || !v->batches || !v->commands || !v->rounds) return TGB_OUT_OF_MEMORY;
    }
    b.block(x.prepare());
    v->n_prepare = b.n_commands;
    b.block(x.body());
    counted = b;
  }
  v->n_values = counted.n_values, v->n_varying = counted.n_varying, v->n_steps = counted.n_steps, v->n_batches = counted.n_batches;
  v->n_commands = counted.n_commands, v->n_loops = counted.n_loops;
  v->fixed = !varies && !counted.n_varying && !counted.sets_vars;
  v->sets_vars = counted.sets_vars;
  v->version = 1;
  for (uint32_t i = 0; i < v->n_steps; i++) v->kernels += v->steps[i].kernel != nullptr;
  for (uint32_t i = 0; i < v->n_batches; i++) {
    OpenBatch& b = v->batches[i];
    b.records = take<Batch*>(m, b.n_steps ? b.n_steps : 1);
    if (!b.records) return TGB_OUT_OF_MEMORY;
  }
  return TGB_OK;
}

void forget_variant(tgb_model* m, OpenVariant* v) {
  for (uint32_t i = 0; i < v->n_batches; i++) {
    OpenBatch& b = v->batches[i];
    OpenDevice* d = device_of(m, *v, b.device);
    for (uint32_t k = 0; k < b.n_records; k++) d->backend->forget(d->device, b.records[k]);
    b.n_records = 0;
  }
}

tgb_status record_variant(tgb_model* m, OpenVariant* v) {
  bool graph = m->options.jit == TGB_JIT_GRAPH;
  uint32_t flags = (graph ? uint32_t(kGraph) : 0u) | (m->timed ? uint32_t(kTimed) : 0u);
  for (uint32_t i = 0; i < v->n_batches; i++) {
    OpenBatch& b = v->batches[i];
    OpenDevice* d = device_of(m, *v, b.device);
    uint32_t each = graph ? b.n_steps : 1;
    for (uint32_t at = 0; at < b.n_steps; at += each) {
      tgb_status s = d->backend->record(d->device, v->steps + b.steps + at, each, flags, &b.records[b.n_records]);
      if (s != TGB_OK) return device_failed(m, *d, s, "record a batch");
      b.n_records++;
    }
  }
  return TGB_OK;
}

static void evaluate_values(tgb_model* m, OpenVariant* v) {
  for (uint32_t i = 0; i < v->n_values; i++) v->values[i] = evaluate(v->exprs[i], m->vars);
  v->version++;
}

tgb_status plan_variant(tgb_model* m, OpenVariant* v) {
  for (uint32_t i = 0; i < v->n_buffers; i++) {
    const fb::Buffer& b = *v->v->buffers()->Get(i);
    int64_t bytes = v->bytes[i] = evaluate(b.bytes(), m->vars);
    if (!in_arena(b)) continue;
    if (bytes < 0 || bytes > tgf::kMaxBytes) return fail(m, TGB_BAD_BUNDLE, "buffer %u has no size at these variables", i);
    uint64_t offset = 0;
    for (uint32_t k = 0; k < count(b.lies_on()); k++) {
      uint32_t on = b.lies_on()->Get(k);
      uint64_t end = uint64_t(v->offsets[on] + v->bytes[on]);
      if (end > offset) offset = end;
    }
    offset = align_up(offset, buffer_align(b));
    const OpenDevice& d = *device_of(m, *v, b.device());
    if (offset + uint64_t(bytes) > d.arena.bytes) return fail(m, TGB_BAD_BUNDLE, "buffer %u is larger than its stated upper bound", i);
    v->offsets[i] = int64_t(offset);
    v->table[i] = {d.arena.handle, d.arena.offset + offset, uint64_t(bytes)};
  }
  evaluate_values(m, v);
  v->planned = true;
  return TGB_OK;
}

// Whether every number that the batch's steps use is sane.
static tgb_status check_batch(tgb_model* m, OpenVariant* v, OpenBatch* b) {
  b->kernels = b->flops = b->bytes = 0;
  for (uint32_t i = 0; i < b->n_values; i++)
    if (v->values[b->values + i] == kUnknown) return fail(m, TGB_BAD_BUNDLE, "a launch has no size at these variables");
  for (uint32_t i = b->steps; i < b->steps + b->n_steps; i++) {
    const StepDesc& s = v->steps[i];
    if (s.kernel) {
      for (uint32_t k = 0; k < s.n_grid; k++)
        if (v->values[s.grid[k]] < 0 || v->values[s.grid[k]] > tgf::kMaxTasks)
          return fail(m, TGB_BAD_BUNDLE, "%s has a launch size of %lld", v->notes[i].name, (long long)v->values[s.grid[k]]);
      b->kernels++;
    } else {
      uint64_t from = uint64_t(v->values[s.from_offset]), to = uint64_t(v->values[s.to_offset]), bytes = uint64_t(v->values[s.bytes]);
      uint64_t have = uint64_t(v->bytes[s.from]), room = uint64_t(v->bytes[s.to]);
      if (from > have || bytes > have - from || to > room || bytes > room - to)
        return fail(m, TGB_BAD_BUNDLE, "a copy reaches beyond its buffers");
    }
    if (v->notes[i].flops != kNone) b->flops += uint64_t(v->values[v->notes[i].flops]);
    if (v->notes[i].bytes != kNone) b->bytes += uint64_t(v->values[v->notes[i].bytes]);
  }
  b->checked = v->version;
  return TGB_OK;
}

static tgb_status report_times(tgb_model* m, OpenVariant* v, const OpenBatch& b, uint32_t record, const OpenDevice& d) {
  uint32_t per = m->options.jit == TGB_JIT_GRAPH ? b.n_steps : 1;
  tgb_status s = d.backend->times(d.device, b.records[record], m->times);
  if (s != TGB_OK) return device_failed(m, d, s, "read times");
  for (uint32_t k = 0; k < per; k++) {
    uint32_t step = b.steps + record * per + k;
    const StepDesc& x = v->steps[step];
    const StepNote& note = v->notes[step];
    tgb_event e = {};
    e.size = sizeof e;
    e.name = note.name;
    e.start_ns = m->times[2 * k] - m->run_start, e.end_ns = m->times[2 * k + 1] - m->run_start;
    e.flops = note.flops == kNone ? 0 : v->values[note.flops];
    e.bytes = note.bytes == kNone ? 0 : v->values[note.bytes];
    e.groups = 1;
    for (uint32_t i = 0; i < x.n_grid; i++) e.groups *= v->values[x.grid[i]];
    m->profiler(m->profiler_ctx, &e);
  }
  return TGB_OK;
}

static tgb_status run_batch(tgb_model* m, OpenVariant* v, OpenBatch* b) {
  if (b->checked != v->version) {
    tgb_status s = check_batch(m, v, b);
    if (s != TGB_OK) return s;
  }
  OpenDevice* d = device_of(m, *v, b->device);
  for (uint32_t i = 0; i < b->n_records; i++) {
    tgb_status s = d->backend->replay(d->device, b->records[i], v->table, v->values);
    if (s != TGB_OK) return device_failed(m, *d, s, "run a batch");
    if (m->timed || m->options.jit == TGB_JIT_OFF) {
      uint64_t fence = 0;
      s = d->backend->fence(d->device, &fence);
      if (s == TGB_OK) s = d->backend->wait(d->device, fence, UINT64_MAX);
      if (s != TGB_OK) return device_failed(m, *d, s, "wait for a batch");
    }
    if (m->timed && m->profiler && (s = report_times(m, v, *b, i, *d)) != TGB_OK) return s;
  }
  m->counters.kernels += b->kernels, m->counters.flops += b->flops, m->counters.bytes += b->bytes;
  return TGB_OK;
}

static tgb_status set_var(tgb_model* m, OpenVariant* v, uint32_t var, int64_t value) {
  const fb::Var& x = *m->b->vars()->Get(var);
  int64_t min = x.min(), max = x.max();
  for (uint32_t i = 0; i < count(v->v->bounds()); i++) {
    const fb::Bound& b = *v->v->bounds()->Get(i);
    if (b.var() == var) min = b.min(), max = b.max();
  }
  // Where the bounds leave one value the name says what it must be, and why.
  if (min == max && value != min) return fail(m, TGB_BAD_ARGUMENT, "%s (the run has %lld)", x.name()->c_str(), (long long)value);
  if (value < min || value > max || value % x.multiple())
    return fail(m, TGB_BAD_ARGUMENT, "the model made %s = %lld, allowed are multiples of %lld from %lld to %lld: compile with a larger --var %s=MIN..MAX%s",
                x.name()->c_str(), (long long)value, (long long)x.multiple(), (long long)min, (long long)max, x.name()->c_str(),
                count(m->b->states()) ? ", or reset the state (tgb_reset)" : "");
  if (m->vars[var] == value) return TGB_OK;
  m->vars[var] = value;
  v->planned = false;  // the next run begins with the upper bound again
  for (uint32_t i = 0; i < v->n_varying; i++) v->values[v->varying[i]] = evaluate(v->exprs[v->varying[i]], m->vars);
  v->version++;
  return TGB_OK;
}

tgb_status execute(tgb_model* m, OpenVariant* v, uint32_t first, uint32_t last) {
  for (uint32_t pc = first; pc < last;) {
    const Command& c = v->commands[pc++];
    tgb_status s = TGB_OK;
    switch (c.kind) {
      case Command::Batch: s = run_batch(m, v, &v->batches[c.a]); break;
      case Command::ReadVar: {
        OpenDevice* d = device_of(m, *v, v->v->buffers()->Get(c.b)->device());
        bool wide = v->v->buffers()->Get(c.b)->dtype() == fb::Dtype::I64;
        uint64_t bytes = wide ? 8 : 4, at = uint64_t(v->values[c.c]), have = uint64_t(v->bytes[c.b]);
        if (at > have || bytes > have - at) return fail(m, TGB_BAD_BUNDLE, "a variable is read beyond its buffer");
        Mem from = v->table[c.b];
        from.offset += at;
        int64_t value = 0;
        s = d->backend->read(d->device, from, &value, bytes);
        if (s != TGB_OK) return device_failed(m, *d, s, "read a variable");
        s = set_var(m, v, c.a, wide ? value : int64_t(int32_t(value)));
        break;
      }
      case Command::SetVar: s = set_var(m, v, c.a, v->values[c.b]); break;
      case Command::JumpUnless:
        if (v->values[c.a] == kUnknown) return fail(m, TGB_BAD_BUNDLE, "a condition has no value at these variables");
        if (!v->values[c.a]) pc = c.c;
        break;
      case Command::Jump: pc = c.c; break;
      case Command::Enter: v->rounds[c.a] = 0; break;
      case Command::Count:
        if (v->rounds[c.a]++ >= c.most)
          return fail(m, TGB_BAD_ARGUMENT, "a loop of the model ran more than %llu rounds", (unsigned long long)c.most);
        break;
    }
    if (s != TGB_OK) return s;
  }
  return TGB_OK;
}

}  // namespace tgb
