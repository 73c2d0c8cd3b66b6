#include "ir/rewrite.h"

#include <algorithm>

namespace tg {
namespace pat {
namespace {

constexpr const char* kNames[kSlots] = {"x", "y", "z", "w", "i", "j", "k", "b", "p", "q", "f", "g", "c0", "c1", "c2", "h"};

const char* infix(Op o) {
  switch (o) {
    case Op::Add: return "+";
    case Op::Sub: return "-";
    case Op::Mul: return "*";
    case Op::FloorDiv: return "/";
    case Op::FloorMod: return "%";
    case Op::And: return "&";
    case Op::Or: return "|";
    case Op::Xor: return "^";
    case Op::Shl: return "<<";
    case Op::Shr: return ">>";
    default: return nullptr;
  }
}

std::string text_at(const PNode* n) {
  std::string s;
  if (n->nsrc || n->flags & kEither) {
    std::vector<std::string> src;
    const PNode* c = n + 1;
    for (int a = 0; a < n->nsrc; a++, c += c->size) src.push_back(text_at(c));
    bool one = Rule::single(n->ops);
    const char* in = one ? infix(only(n->ops)) : nullptr;
    if (in && src.size() == 2) s = "(" + src[0] + " " + in + " " + src[1] + ")";
    else {
      if (n->flags & kEither) s = "either";
      else if (one) s = std::string(info(only(n->ops)).name);
      else s = "any-of";
      s += "(" + join(src, ", ") + (n->flags & kEach ? "..." : n->flags & kMore ? ", .." : "") + ")";
    }
    if (n->slot >= 0) s += std::string(".as(") + kNames[n->slot] + ")";
    return s;
  }
  if (n->flags & kLit) return std::to_string(n->lit);
  if (n->flags & kLitFloat) return number_text(std::bit_cast<f64>(u64(n->lit)));
  if (n->slot >= 0) return kNames[n->slot];
  return Rule::single(n->ops) ? std::string(info(only(n->ops)).name) : "_";
}

bool match_at(const PNode* n, UOp u, Match& m, u32& bound, u32 flips) {
  if (n->flags & kEither) {
    const PNode* c = n + 1;
    return match_at(flips >> n->bit & 1 ? c + c->size : c, u, m, bound, flips);
  }
  if (!n->ops.has(u.op())) return false;
  if (!(n->kinds >> int(u.dtype().kind) & 1)) return false;
  if (n->flags & kLit && !u.is_const(n->lit)) return false;
  if (n->flags & kLitFloat && (!is_float(u.dtype()) || u.arg_bits() != u64(n->lit))) return false;
  if (n->slot >= 0) {
    if (bound >> n->slot & 1) {
      if (!(m.bound[size_t(n->slot)] == u)) return false;
    } else {
      m.bound[size_t(n->slot)] = u;
      bound |= 1u << n->slot;
    }
  }
  if (!n->nsrc) return true;
  const PNode* c = n + 1;
  if (n->flags & kEach) {
    for (UOp s : u.src())
      if (!match_at(c, s, m, bound, flips)) return false;
    return true;
  }
  if (n->flags & kMore ? u.nsrc() < n->nsrc : u.nsrc() != n->nsrc) return false;
  bool flip = n->flags & kFlip && flips >> n->bit & 1;
  for (size_t a = 0; a < n->nsrc; a++, c += c->size)
    if (!match_at(c, u.src(flip ? 1 - a : a), m, bound, flips)) return false;
  return true;
}

UOp build_at(const PNode* n, const Match& m, DType literal) {
  if (n->slot >= 0) return m.bound[size_t(n->slot)];
  if (n->flags & kLit) return konst(literal, n->lit);
  if (n->flags & kLitFloat) return konst_f(literal, std::bit_cast<f64>(u64(n->lit)));
  Op op = only(n->ops);
  UOp s[3];
  const PNode* src[3];
  const PNode* c = n + 1;
  for (size_t a = 0; a < n->nsrc; a++, c += c->size) src[a] = c;
  // A literal takes the dtype of the sibling that must agree with it.
  size_t first = op == Op::Where ? 1 : 0;
  DType d = literal;
  auto is_literal = [](const PNode* x) { return (x->flags & (kLit | kLitFloat)) != 0; };
  for (size_t a = 0; a < n->nsrc; a++)
    if (!is_literal(src[a])) {
      s[a] = build_at(src[a], m, literal);
      if (a >= first) d = s[a].dtype();
    }
  for (size_t a = 0; a < n->nsrc; a++)
    if (is_literal(src[a])) s[a] = build_at(src[a], m, op == Op::Where && a == 0 ? DType(Kind::Bool, d.lanes) : d);
  return alu(op, std::span(s, n->nsrc));
}

}  // namespace

std::string text(const Pat& p) { return text_at(&p.n[0]); }
std::string text(const Rule& r) { return text(r.left) + " -> " + (r.fn ? "function" : text(r.right)); }

bool match(const Pat& p, UOp u, Match& m, When when) {
  m.root = u;
  for (u32 flips = 0; flips < 1u << p.flips; flips++) {
    u32 bound = 0;
    if (match_at(&p.n[0], u, m, bound, flips) && (!when || when(m))) return true;
  }
  return false;
}

UOp build(const Pat& p, const Match& m) { return build_at(&p.n[0], m, m.root.dtype()); }

}  // namespace pat

// --- rule sets --------------------------------------------------------------------------------------------------------------------------
std::string RuleSet::Ref::name() const { return str(table, "[", row, "]"); }

RuleSet::RuleSet(std::string_view table, std::span<const pat::Rule> rules) {
  for (size_t r = 0; r < rules.size(); r++) add({&rules[r], table, int(r)});
}

void RuleSet::add(const Ref& ref) {
  const pat::Pat& l = ref.rule->left;
  OpSet need;
  if (!(l.n[0].flags & (pat::kEither | pat::kEach))) {
    const pat::PNode* c = &l.n[1];
    for (int a = 0; a < l.n[0].nsrc; a++, c += c->size)
      if (!(c->flags & pat::kEither) && pat::Rule::single(c->ops)) need = need | c->ops;
  }
  u32 number = u32(rules_.size());
  rules_.push_back(ref);
  OpSet roots = l.n[0].ops;
  for (int o = 0; o < kOps; o++)
    if (roots.has(Op(o))) by_op_[o].push_back({need, number});
}

RuleSet RuleSet::operator+(const RuleSet& o) const {
  RuleSet r = *this;
  for (const Ref& ref : o.rules_) r.add(ref);
  return r;
}

UOp RuleSet::apply(UOp u, pat::Match& m, Ref* by) const {
  for (const Entry& e : by_op_[int(u.op())]) {
    if (!e.need.subset_of(u.src_ops())) continue;
    const pat::Rule& rule = *rules_[e.rule].rule;
    m.root = u;
    for (u32 flips = 0; flips < 1u << rule.left.flips; flips++) {
      u32 bound = 0;
      if (!pat::match_at(&rule.left.n[0], u, m, bound, flips)) continue;
      if (rule.when && !rule.when(m)) continue;
      UOp r = rule.fn ? rule.fn(m) : pat::build(rule.right, m);
      if (!r || r == u) continue;
      TG_CHECK(r.dtype() == u.dtype(), rules_[e.rule].name(), " turns ", name(u.dtype()), " into ", name(r.dtype()), ": ", u.str());
      if (by) *by = rules_[e.rule];
      return r;
    }
  }
  return {};
}

// --- driver -----------------------------------------------------------------------------------------------------------------------------
namespace {

constexpr size_t kMaxDepth = 1'000'000, kMaxChain = 2000;

class Driver {
 public:
  Driver(const RuleSet& rules, const RewriteOptions& o) : rules_(rules), o_(o), done_(o.memo ? *o.memo : own_) {
    match_.context = o.context;
    match_.context_type = o.context_type;
  }

  UOp run(UOp root) {
    if (UOp* d = done_.find(root)) return *d;
    push(root);
    while (!stack_.empty()) step();
    return *done_.find(root);
  }

 private:
  struct Frame {
    UOp cur;
    u32 next;      // first source of cur not yet known to be done
    u32 chain;     // chain_[chain..] is what this node has been, cur last
    bool rewritten;  // TopDown: no rule matches cur any more
  };

  void push(UOp u) {
    if (open_.find(u)) endless(u);
    if (stack_.size() > kMaxDepth) endless(u);
    open_.set(u, 1);
    stack_.push_back({u, 0, u32(chain_.size()), false});
    chain_.push_back(u);
  }

  void finish(UOp normal) {
    Frame f = stack_.back();
    stack_.pop_back();
    for (size_t k = f.chain; k < chain_.size(); k++) done_.set(chain_[k], normal);
    chain_.resize(f.chain);
    if (o_.order == Order::BottomUp) done_.set(normal, normal);
  }

  void become(UOp u) {
    Frame& f = stack_.back();
    if (open_.find(u) && !done_.find(u)) endless(u);
    open_.set(u, 1);
    chain_.push_back(u);
    if (chain_.size() - f.chain > kMaxChain) endless(u);
    f.cur = u, f.next = 0;
  }

  // One rule on u; null if none matches.
  UOp fire(UOp u) {
    RuleSet::Ref by;
    UOp r = rules_.apply(u, match_, &by);
    if (!r) return {};
    last_[steps_++ % kLast] = by;
    if (steps_ > o_.max_steps) endless(u);
    if (o_.trace) o_.trace->steps.push_back({by, u, r});
    return r;
  }

  void step() {
    Frame& f = stack_.back();
    if (o_.order == Order::TopDown && !f.rewritten) {
      if (UOp r = fire(f.cur)) {
        if (UOp* d = done_.find(r)) finish(*d);
        else become(r);
      } else f.rewritten = true;
      return;
    }
    bool leaf = o_.leaves.has(f.cur.op());
    if (!leaf && f.next < f.cur.nsrc()) {
      UOp s = f.cur.src(f.next++);
      if (!done_.find(s)) push(s);
      return;
    }
    src_.clear();
    bool changed = false;
    for (UOp s : f.cur.src()) {
      src_.push_back(leaf ? s : *done_.find(s));
      changed |= !(src_.back() == s);
    }
    UOp cur = changed ? with_src(f.cur, src_) : f.cur;
    if (o_.order == Order::TopDown) return finish(cur);
    if (o_.order == Order::Once) {
      UOp r = fire(cur);
      return finish(r ? r : cur);
    }
    if (!(cur == f.cur)) {
      if (UOp* d = done_.find(cur)) return finish(*d);
      return become(cur);
    }
    UOp r = fire(cur);
    if (!r) return finish(cur);
    if (UOp* d = done_.find(r)) return finish(*d);
    become(r);
  }

  [[noreturn]] void endless(UOp u) {
    std::vector<std::string> names;
    for (u64 k = std::min<u64>(steps_, kLast); k-- > 0;) {
      const RuleSet::Ref& r = last_[(steps_ - 1 - k) % kLast];
      std::string n = r.name() + " (" + pat::text(*r.rule) + ")";
      if (std::find(names.begin(), names.end(), n) == names.end()) names.push_back(n);
    }
    std::string where = u.str();
    if (where.size() > 400) where = where.substr(0, 400) + "...";
    fail("rewrite \"", o_.name, "\" does not converge: ", join(names, " and "), " undo each other on ", where);
  }

  static constexpr u64 kLast = 8;
  const RuleSet& rules_;
  const RewriteOptions& o_;
  IdMap<UOp> own_;
  IdMap<UOp>& done_;
  IdMap<u8> open_;
  std::vector<Frame> stack_;
  std::vector<UOp> chain_, src_;
  pat::Match match_;
  RuleSet::Ref last_[kLast];
  u64 steps_ = 0;
};

}  // namespace

UOp rewrite(UOp root, const RuleSet& rules, const RewriteOptions& options) { return Driver(rules, options).run(root); }

}  // namespace tg
