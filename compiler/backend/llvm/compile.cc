#include <llvm/ADT/SmallVector.h>
#include <llvm/CodeGen/CommandFlags.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <bit>
#include <map>
#include <mutex>
#include <set>

#include "backend/llvm/llvm.h"
#include "base/error.h"
#include "ir/bounds.h"
#include "ir/canonical.h"
#include "ir/loops.h"

namespace tg {
namespace {

using namespace llvm;

class Emitter {
  static constexpr i64 kLine = 64;

 public:
  Emitter(Module& m, const Target& t, const std::string& entry) : ctx_(m.getContext()), m_(m), b_(ctx_), bf16_(t.has_bf16), lookup_(t.lookup) {
    auto* ptr = PointerType::get(ctx_, 0);
    auto* i64t = Type::getInt64Ty(ctx_);
    fn_ = Function::Create(FunctionType::get(Type::getVoidTy(ctx_), {ptr, ptr, i64t}, false), Function::ExternalLinkage, entry, m);
    fn_->addFnAttr("target-cpu", t.cpu);
    fn_->addFnAttr("tune-cpu", "generic");  // the CPUs' own scheduling models hoist loads of long bodies until they spill
    if (!t.features.empty()) fn_->addFnAttr("target-features", t.features);
    fn_->addFnAttr("no-builtins");
    fn_->addFnAttr("prefer-vector-width", str(t.vector_bytes * 8));
    fn_->addFnAttr(Attribute::NoUnwind);
    b_.SetInsertPoint(BasicBlock::Create(ctx_, "entry", fn_));
    domain_ = MDBuilder(ctx_).createAnonymousAliasScopeDomain();
  }

  void run(std::span<const UOp> linear) {
    for (UOp u : linear)
      if (u.is(Op::Param)) param(u);
    for (UOp u : linear)
      if (u.is(Op::Fence))
        for (UOp p : u.src()) past_.insert(p.arg_int());
    for (UOp u : linear) emit(u);
    b_.CreateRetVoid();
  }

 private:
  Type* scalar(Kind k) {
    switch (k) {
      case Kind::Bool: return Type::getInt1Ty(ctx_);
      case Kind::F16: return Type::getHalfTy(ctx_);
      case Kind::BF16: return Type::getBFloatTy(ctx_);
      case Kind::F32: return Type::getFloatTy(ctx_);
      case Kind::F64: return Type::getDoubleTy(ctx_);
      default: return Type::getIntNTy(ctx_, unsigned(bits(k)));
    }
  }
  Type* type(DType d) {
    Type* t = scalar(d.kind);
    return d.lanes == 1 ? t : FixedVectorType::get(t, d.lanes);
  }
  // How values lie in memory: bool is a byte.
  Type* memory_type(DType d) {
    Type* t = d.kind == Kind::Bool ? Type::getInt8Ty(ctx_) : scalar(d.kind);
    return d.lanes == 1 ? t : FixedVectorType::get(t, d.lanes);
  }
  llvm::Value* from_memory(llvm::Value* v, DType d) { return d.kind == Kind::Bool ? b_.CreateTrunc(v, type(d)) : v; }
  llvm::Value* to_memory(llvm::Value* v, DType d) { return d.kind == Kind::Bool ? b_.CreateZExt(v, memory_type(d)) : v; }

  llvm::Value* val(UOp u) {
    u = without_waits(u);
    if (u.is(Op::Const)) return constant(u);
    auto it = v_.find(u.id());
    TG_CHECK(it != v_.end(), "linear form reads a value before it is made: ", u.str());
    return it->second;
  }

  llvm::Value* constant(UOp u) {
    DType d = u.dtype();
    llvm::Constant* c;
    if (is_float(d)) {
      APFloat f(std::bit_cast<double>(u.arg_bits()));
      bool lost;
      f.convert(scalar(d.kind)->getFltSemantics(), APFloat::rmNearestTiesToEven, &lost);
      c = ConstantFP::get(ctx_, f);
    } else {
      c = ConstantInt::get(ctx_, APInt(d.kind == Kind::Bool ? 1 : unsigned(bits(d)), u.arg_bits(), false, true));
    }
    return d.lanes == 1 ? c : ConstantVector::getSplat(ElementCount::getFixed(d.lanes), c);
  }

  void param(UOp u) {
    if (v_.count(u.id())) return;
    llvm::Value* at = b_.CreateConstInBoundsGEP1_64(PointerType::get(ctx_, 0), fn_->getArg(0), u64(u.arg_int()));
    auto* l = b_.CreateLoad(PointerType::get(ctx_, 0), at);
    l->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(ctx_, {}));
    v_[u.id()] = l;
    // Buffers of one launch do not overlap (an in-place output is the same parameter as its input).
    scopes_[u.id()] = MDBuilder(ctx_).createAnonymousAliasScope(domain_);
  }

  void tag(Instruction* i, UOp buffer) {
    auto it = scopes_.find(without_waits(buffer).id());
    if (it == scopes_.end()) return;
    SmallVector<Metadata*> others;
    for (auto& [id, s] : scopes_)
      if (id != it->first) others.push_back(s);
    i->setMetadata(LLVMContext::MD_alias_scope, MDNode::get(ctx_, {it->second}));
    if (!others.empty()) i->setMetadata(LLVMContext::MD_noalias, MDNode::get(ctx_, others));
  }

  // Address of a scalar offset. A constant part is added last, so that it becomes a displacement.
  llvm::Value* address(UOp index, DType d) {
    Type* t = memory_type(d.scalar());
    llvm::Value* p = val(index.src(0));
    UOp off = index.src(1);
    i64 plus = 0;
    if (off.is(Op::Add) && off.src(1).is(Op::Const) && off.dtype().lanes == 1 && v_.count(off.src(0).id())) plus = off.src(1).as_int(), off = off.src(0);
    if (off.is(Op::Const)) return b_.CreateConstGEP1_64(t, p, u64(off.as_int() + plus));
    p = b_.CreateGEP(t, p, wide(off));
    return plus ? b_.CreateConstGEP1_64(t, p, u64(plus)) : p;
  }
  llvm::Value* wide(UOp off) {
    llvm::Value* v = val(off);
    Type* t = off.dtype().lanes == 1 ? static_cast<Type*>(Type::getInt64Ty(ctx_)) : FixedVectorType::get(Type::getInt64Ty(ctx_), off.dtype().lanes);
    return is_uint(off.dtype()) ? b_.CreateZExtOrTrunc(v, t) : b_.CreateSExtOrTrunc(v, t);
  }

  void emit(UOp u) {
    DType d = u.dtype();
    switch (u.op()) {
      case Op::Param:
      case Op::Const:
      case Op::Index:
      case Op::After: return;
      case Op::Special: v_[u.id()] = fn_->getArg(2); return;
      case Op::Var: {
        auto* i64t = Type::getInt64Ty(ctx_);
        auto* l = b_.CreateLoad(i64t, b_.CreateConstInBoundsGEP1_64(i64t, fn_->getArg(1), u64(var_number(u))));
        l->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(ctx_, {}));
        v_[u.id()] = b_.CreateSExtOrTrunc(l, type(u.dtype()));
        return;
      }
      case Op::Range: return open(u);
      case Op::End: return close(u.src(0));
      case Op::Reg: {
        IRBuilder<> e(&fn_->getEntryBlock(), fn_->getEntryBlock().begin());
        v_[u.id()] = e.CreateAlloca(type(d));
        return;
      }
      case Op::Row: {
        IRBuilder<> e(&fn_->getEntryBlock(), fn_->getEntryBlock().begin());
        auto* a = e.CreateAlloca(ArrayType::get(memory_type(d), u64(u.src(0).as_int())));
        a->setAlignment(Align(64));
        v_[u.id()] = a;
        return;
      }
      case Op::Load: v_[u.id()] = load(u); return;
      case Op::Store: return store(u);
      case Op::Prefetch: {
        // Read, into the second-level cache, data.
        llvm::Value* p = address(u.src(0), u.src(0).dtype());
        b_.CreateIntrinsic(Intrinsic::prefetch, {p->getType()}, {p, b_.getInt32(0), b_.getInt32(2), b_.getInt32(1)});
        return;
      }
      case Op::Broadcast: {
        // A half is widened in all lanes, which is one instruction; a single one is put into a register by parts first.
        UOp x = u.src(0);
        bool widened = x.is(Op::Cast) && d.kind == Kind::F32 && x.src(0).dtype() == DType(Kind::F16);
        llvm::Value* all = b_.CreateVectorSplat(d.lanes, val(widened ? x.src(0) : x));
        v_[u.id()] = widened ? b_.CreateFPExt(all, type(d)) : all;
        return;
      }
      case Op::Lanes: {
        SmallVector<llvm::Constant*> c;
        for (int i = 0; i < d.lanes; i++) c.push_back(ConstantInt::get(scalar(d.kind), u64(i)));
        v_[u.id()] = ConstantVector::get(c);
        return;
      }
      case Op::HReduce: v_[u.id()] = horizontal(u); return;
      case Op::Extract: v_[u.id()] = b_.CreateExtractElement(val(u.src(0)), u64(u.arg_int())); return;
      case Op::Pack: {
        llvm::Value* v = PoisonValue::get(type(d));
        for (size_t i = 0; i < u.nsrc(); i++) v = b_.CreateInsertElement(v, val(u.src(i)), u64(i));
        v_[u.id()] = v;
        return;
      }
      case Op::Shuffle: {
        SmallVector<int> mask;
        for (i64 i : u.arg_ints()) mask.push_back(int(i));
        v_[u.id()] = b_.CreateShuffleVector(val(u.src(0)), val(u.src(1)), mask);
        return;
      }
      case Op::Fence: b_.CreateIntrinsic(Intrinsic::x86_sse_sfence, {}); return;
      case Op::Lookup: v_[u.id()] = lookup(u); return;
      case Op::Dot: v_[u.id()] = dot(u); return;
      default: v_[u.id()] = compute(u); return;
    }
  }

  // Numbers in two registers are chosen by an instruction, 16 lanes at a time; others come from memory one by one.
  llvm::Value* lookup(UOp u) {
    IntSpan of = u.arg_ints();
    unsigned lanes = u.dtype().lanes;
    Type* t = Type::getInt32Ty(ctx_);
    SmallVector<llvm::Constant*> c;
    for (i64 v : of) c.push_back(ConstantInt::get(t, u64(u32(v))));
    llvm::Value* at = val(u.src(0));
    if (lanes > 1 && of.size() == 32 && lookup_ == 32) {
      ArrayRef<llvm::Constant*> all = c;
      llvm::Value *low = ConstantVector::get(all.take_front(16)), *high = ConstantVector::get(all.drop_front(16)), *r = nullptr;
      for (unsigned from = 0; from < lanes; from += 16) {
        SmallVector<int> in, out, both;
        for (unsigned i = 0; i < 16; i++) in.push_back(from + i < lanes ? int(from + i) : -1);
        for (unsigned i = 0; i < lanes; i++) out.push_back(i < 16 ? int(i) : -1), both.push_back(int(i < from ? i : lanes + i - from));
        llvm::Value* part = b_.CreateIntrinsic(Intrinsic::x86_avx512_vpermi2var_d_512, {low, b_.CreateShuffleVector(at, in), high});
        part = b_.CreateShuffleVector(part, out);
        r = r ? b_.CreateShuffleVector(r, part, both) : part;
      }
      return r;
    }
    llvm::Value*& table = tables_[of.data()];
    if (!table) {
      auto* a = ArrayType::get(t, of.size());
      auto* g = new GlobalVariable(m_, a, true, GlobalValue::PrivateLinkage, ConstantArray::get(a, c), "table");
      g->setAlignment(Align(64));
      table = g;
    }
    at = b_.CreateAnd(at, u64(of.size() - 1));
    auto one = [&](llvm::Value* i) { return b_.CreateLoad(t, b_.CreateGEP(t, table, b_.CreateZExt(i, Type::getInt64Ty(ctx_)))); };
    if (lanes == 1) return one(at);
    llvm::Value* r = PoisonValue::get(type(u.dtype()));
    for (u64 i = 0; i < lanes; i++) r = b_.CreateInsertElement(r, one(b_.CreateExtractElement(at, i)), i);
    return r;
  }

  // Row by row as target/dots.cc has them: the kinds and the group name the instruction, the lanes its width.
  llvm::Value* dot(UOp u) {
    UOp a = u.src(0), b = u.src(1);
    unsigned n = u.dtype().lanes, group = unsigned(std::max(a.dtype().lanes, b.dtype().lanes)) / n;
    unsigned bits = n * 32, w = bits == 512 ? 2 : bits == 256 ? 1 : 0;
    llvm::Value* c = val(u.src(2));
    // Words of a group each: one for all lanes, or one a lane.
    auto words = [&](UOp x) -> llvm::Value* {
      unsigned word = unsigned(tg::bits(x.dtype().kind)) * group;
      llvm::Value* v = val(x);
      if (unsigned(x.dtype().lanes) == group) return b_.CreateVectorSplat(n, b_.CreateBitCast(v, Type::getIntNTy(ctx_, word)));
      return b_.CreateBitCast(v, FixedVectorType::get(Type::getIntNTy(ctx_, word), n));
    };
    auto as = [&](UOp x, unsigned each, Type* t) { return b_.CreateBitCast(words(x), FixedVectorType::get(t, n * each)); };
    if (is_float(u.dtype()) && !bf16_) {
      Type* t = Type::getInt32Ty(ctx_);
      auto low = [&](UOp x) { return b_.CreateBitCast(b_.CreateShl(as(x, 1, t), 16), c->getType()); };
      auto high = [&](UOp x) { return b_.CreateBitCast(b_.CreateAnd(as(x, 1, t), 0xffff0000u), c->getType()); };
      auto fma = [&](llvm::Value* x, llvm::Value* y, llvm::Value* z) { return b_.CreateIntrinsic(Intrinsic::fma, {c->getType()}, {x, y, z}); };
      return fma(high(a), high(b), fma(low(a), low(b), c));
    }
    if (is_float(u.dtype())) {
      constexpr Intrinsic::ID kId[] = {Intrinsic::x86_avx512bf16_dpbf16ps_128, Intrinsic::x86_avx512bf16_dpbf16ps_256, Intrinsic::x86_avx512bf16_dpbf16ps_512};
      Type* t = Type::getBFloatTy(ctx_);
      return b_.CreateIntrinsic(kId[w], {c, as(a, group, t), as(b, group, t)});
    }
    if (group == 4) {
      constexpr Intrinsic::ID kId[] = {Intrinsic::x86_avx512_vpdpbusd_128, Intrinsic::x86_avx512_vpdpbusd_256, Intrinsic::x86_avx512_vpdpbusd_512};
      Type* t = Type::getInt8Ty(ctx_);
      return b_.CreateIntrinsic(kId[w], {c, as(a, group, t), as(b, group, t)});
    }
    constexpr Intrinsic::ID kId[] = {Intrinsic::x86_sse2_pmadd_wd, Intrinsic::x86_avx2_pmadd_wd, Intrinsic::x86_avx512_pmaddw_d_512};
    Type* wide = FixedVectorType::get(Type::getInt16Ty(ctx_), n * group);
    auto pairs = [&](UOp x) { return is_uint(x.dtype()) ? b_.CreateZExt(as(x, group, scalar(x.dtype().kind)), wide) : b_.CreateSExt(as(x, group, scalar(x.dtype().kind)), wide); };
    return b_.CreateAdd(c, b_.CreateIntrinsic(kId[w], {pairs(a), pairs(b)}));
  }

  struct LoopState {
    BasicBlock *head, *body, *exit;
    PHINode* phi;
  };
  void open(UOp u) {
    // A loop of constant size runs at least once and is tested at its end; others are tested first.
    LoopState l;
    UOp size = u.src(0);
    Type* t = type(u.dtype());
    BasicBlock* before = b_.GetInsertBlock();
    l.body = BasicBlock::Create(ctx_, "loop", fn_);
    l.exit = BasicBlock::Create(ctx_, "done", fn_);
    llvm::Value* n = val(size);
    if (size.is(Op::Const) && size.as_int() > 0) b_.CreateBr(l.body);
    else b_.CreateCondBr(b_.CreateICmpSGT(n, ConstantInt::get(n->getType(), 0)), l.body, l.exit);
    b_.SetInsertPoint(l.body);
    l.phi = b_.CreatePHI(t, 2);
    l.phi->addIncoming(ConstantInt::get(t, 0), before);
    v_[u.id()] = l.phi;
    loops_[u.id()] = l;
  }
  void close(UOp u) {
    LoopState l = loops_.at(u.id());
    Type* t = l.phi->getType();
    llvm::Value* next = b_.CreateAdd(l.phi, ConstantInt::get(t, 1), "", true, true);
    l.phi->addIncoming(next, b_.GetInsertBlock());
    auto* br = b_.CreateCondBr(b_.CreateICmpSLT(next, val(u.src(0))), l.body, l.exit);
    // LLVM shall not unroll: the tile is unrolled already.
    MDNode* off = MDNode::get(ctx_, {MDString::get(ctx_, "llvm.loop.unroll.disable")});
    MDNode* id = MDNode::getDistinct(ctx_, {nullptr, off});
    id->replaceOperandWith(0, id);
    br->setMetadata(LLVMContext::MD_loop, id);
    b_.SetInsertPoint(l.exit);
  }

  llvm::Value* load(UOp u) {
    DType d = u.dtype();
    if (without_waits(u.src(0)).is(Op::Reg)) return b_.CreateLoad(type(d), val(u.src(0)));
    UOp ix = u.src(0);
    Type* mt = memory_type(d);
    Align al(u64(std::max(1, bits(d.kind) / 8)));
    bool gated = u.nsrc() > 1;
    if (ix.src(1).dtype().lanes > 1) {
      llvm::Value* ps = b_.CreateGEP(memory_type(d.scalar()), val(ix.src(0)), wide(ix.src(1)));
      llvm::Value* mask = gated ? lanes_mask(u.src(1), d.lanes) : nullptr;
      auto* g = b_.CreateMaskedGather(mt, ps, al, mask, gated ? to_memory(val(u.src(2)), d) : nullptr);
      tag(g, ix.src(0));
      return from_memory(g, d);
    }
    llvm::Value* p = address(ix, d);
    if (gated && u.src(1).dtype().lanes > 1) {
      auto* l = b_.CreateMaskedLoad(mt, p, al, val(u.src(1)), to_memory(val(u.src(2)), d));
      tag(l, ix.src(0));
      return from_memory(l, d);
    }
    if (gated) {
      // Where the gate is false the alternative is read from memory of our own: one selected address, no branch.
      if (u.src(2).is(Op::Const)) {
        auto* other = alternative(u.src(2), mt);
        auto* l = b_.CreateAlignedLoad(mt, b_.CreateSelect(val(u.src(1)), p, other), al);
        return from_memory(l, d);
      }
      auto* zero = alternative(konst_bits(d, 0), mt);
      auto* l = b_.CreateAlignedLoad(mt, b_.CreateSelect(val(u.src(1)), p, zero), al);
      return b_.CreateSelect(val(u.src(1)), from_memory(l, d), val(u.src(2)));
    }
    auto* l = b_.CreateAlignedLoad(mt, p, al);
    tag(l, ix.src(0));
    return from_memory(l, d);
  }

  llvm::Value* alternative(UOp c, Type* mt) {
    llvm::Value*& g = alternatives_[{c.id(), mt}];
    if (!g) {
      auto* v = cast<llvm::Constant>(to_memory(constant(c), c.dtype()));
      auto* gv = new GlobalVariable(m_, mt, true, GlobalValue::PrivateLinkage, v, "alt");
      gv->setAlignment(Align(64));
      g = gv;
    }
    return g;
  }

  llvm::Value* lanes_mask(UOp gate, int lanes) {
    llvm::Value* m = val(gate);
    return gate.dtype().lanes == 1 ? b_.CreateVectorSplat(unsigned(lanes), m) : m;
  }

  void store(UOp u) {
    UOp to = u.src(0);
    if (without_waits(to).is(Op::Reg)) {
      b_.CreateStore(val(u.src(1)), val(to));
      return;
    }
    DType d = u.src(1).dtype();
    llvm::Value* v = to_memory(val(u.src(1)), d);
    Align al(u64(std::max(1, bits(d.kind) / 8)));
    bool gated = u.nsrc() > 2;
    if (to.src(1).dtype().lanes > 1) {
      llvm::Value* ps = b_.CreateGEP(memory_type(d.scalar()), val(to.src(0)), wide(to.src(1)));
      auto* s = b_.CreateMaskedScatter(v, ps, al, gated ? lanes_mask(u.src(2), d.lanes) : nullptr);
      tag(s, to.src(0));
      return;
    }
    llvm::Value* p = address(to, d);
    if (gated && u.src(2).dtype().lanes > 1) {
      tag(b_.CreateMaskedStore(v, p, al, val(u.src(2))), to.src(0));
      return;
    }
    if (gated) {
      BasicBlock* yes = BasicBlock::Create(ctx_, "store", fn_);
      BasicBlock* after = BasicBlock::Create(ctx_, "after", fn_);
      b_.CreateCondBr(val(u.src(2)), yes, after);
      b_.SetInsertPoint(yes);
      tag(b_.CreateAlignedStore(v, p, al), to.src(0));
      b_.CreateBr(after);
      b_.SetInsertPoint(after);
      return;
    }
    if (passes_caches(to, d)) {
      auto* s = b_.CreateAlignedStore(v, p, Align(kLine));
      s->setMetadata(LLVMContext::MD_nontemporal, MDNode::get(ctx_, ConstantAsMetadata::get(b_.getInt32(1))));
      return tag(s, to.src(0));
    }
    tag(b_.CreateAlignedStore(v, p, al), to.src(0));
  }
  // A whole line, of a buffer that a FENCE names: buffers begin at multiples of 64.
  bool passes_caches(UOp to, DType d) {
    i64 bytes = tg::bits(d.kind) / 8;
    return past_.size() && memory_of(to.src(0)).is(Op::Param) && past_.count(memory_of(to.src(0)).arg_int()) && bytes * d.lanes == kLine &&
           const_factor(to.src(1)) * bytes % kLine == 0;
  }

  llvm::Value* binary(Op op, DType d, llvm::Value* x, llvm::Value* y) {
    bool f = is_float(d), u = is_uint(d) || d.kind == Kind::Bool;
    switch (op) {
      case Op::Add: return f ? b_.CreateFAdd(x, y) : b_.CreateAdd(x, y);
      case Op::Sub: return f ? b_.CreateFSub(x, y) : b_.CreateSub(x, y);
      case Op::Mul: return f ? b_.CreateFMul(x, y) : b_.CreateMul(x, y);
      case Op::Div: return f ? b_.CreateFDiv(x, y) : u ? b_.CreateUDiv(x, y) : b_.CreateSDiv(x, y);
      case Op::Rem: return f ? b_.CreateFRem(x, y) : u ? b_.CreateURem(x, y) : b_.CreateSRem(x, y);
      case Op::And: return b_.CreateAnd(x, y);
      case Op::Or: return b_.CreateOr(x, y);
      case Op::Xor: return b_.CreateXor(x, y);
      case Op::Shl: return b_.CreateShl(x, y);
      case Op::Shr: return u ? b_.CreateLShr(x, y) : b_.CreateAShr(x, y);
      case Op::Max: return f ? extreme(CmpInst::FCMP_OGT, Intrinsic::maximum, x, y) : b_.CreateSelect(u ? b_.CreateICmpUGT(x, y) : b_.CreateICmpSGT(x, y), x, y);
      case Op::Min: return f ? extreme(CmpInst::FCMP_OLT, Intrinsic::minimum, x, y) : b_.CreateSelect(u ? b_.CreateICmpULT(x, y) : b_.CreateICmpSLT(x, y), x, y);
      default: TG_CHECK(false, "no instruction for ", info(op).name); return nullptr;
    }
  }
  // select(compare(x, y), x, y) gives y if either is NaN, so it is enough where y is a number: then with the operands turned.
  llvm::Value* extreme(CmpInst::Predicate better, Intrinsic::ID intrinsic, llvm::Value* x, llvm::Value* y) {
    if (PatternMatch::match(y, PatternMatch::m_NonNaN())) return b_.CreateSelect(b_.CreateFCmp(better, y, x), y, x);
    llvm::Value* v = b_.CreateBinaryIntrinsic(intrinsic, x, y);
    if (auto* call = dyn_cast<Instruction>(v)) call->setHasNoSignedZeros(true);  // which zero is open; constants are folded
    return v;
  }

  llvm::Value* compute(UOp u) {
    DType d = u.dtype();
    // In range since decompose(): one instruction where there is one, in the rounding that machines start with.
    if (u.is(Op::Cast) && d.kind == Kind::I32 && u.src(0).is(Op::Round) && u.src(0).dtype().kind == Kind::F32)
      return b_.CreateIntrinsic(Intrinsic::lrint, {type(d), val(u.src(0).src(0))->getType()}, {val(u.src(0).src(0))});
    if (u.is(Op::Cast)) return convert(val(u.src(0)), u.src(0).dtype(), d);
    if (u.is(Op::Bitcast)) return from_memory(b_.CreateBitCast(to_memory(val(u.src(0)), u.src(0).dtype()), memory_type(d)), d);
    llvm::Value* x = val(u.src(0));
    DType s = u.src(0).dtype();
    bool f = is_float(s), un = is_uint(s) || s.kind == Kind::Bool;
    if (is_unary(u.op())) {
      auto intrinsic = [&](Intrinsic::ID id) { return b_.CreateUnaryIntrinsic(id, x); };
      switch (u.op()) {
        case Op::Neg: return f ? b_.CreateFNeg(x) : b_.CreateNeg(x);
        case Op::Not: return b_.CreateNot(x);
        case Op::Abs: return f ? intrinsic(Intrinsic::fabs) : un ? x : b_.CreateSelect(b_.CreateICmpSLT(x, Constant::getNullValue(x->getType())), b_.CreateNeg(x), x);
        case Op::Sqrt: return intrinsic(Intrinsic::sqrt);
        case Op::Recip: return b_.CreateFDiv(ConstantFP::get(x->getType(), 1.0), x);
        case Op::Floor: return f ? intrinsic(Intrinsic::floor) : x;
        case Op::Ceil: return f ? intrinsic(Intrinsic::ceil) : x;
        case Op::Trunc: return f ? intrinsic(Intrinsic::trunc) : x;
        case Op::Round: return f ? intrinsic(Intrinsic::roundeven) : x;
        default: TG_CHECK(false, "not lowered before rendering: ", info(u.op()).name);
      }
    }
    llvm::Value* y = val(u.src(1));
    switch (u.op()) {
      case Op::Lt: return f ? b_.CreateFCmpOLT(x, y) : un ? b_.CreateICmpULT(x, y) : b_.CreateICmpSLT(x, y);
      case Op::Le: return f ? b_.CreateFCmpOLE(x, y) : un ? b_.CreateICmpULE(x, y) : b_.CreateICmpSLE(x, y);
      case Op::Eq: return f ? b_.CreateFCmpOEQ(x, y) : b_.CreateICmpEQ(x, y);
      case Op::Ne: return f ? b_.CreateFCmpUNE(x, y) : b_.CreateICmpNE(x, y);
      case Op::Where: return b_.CreateSelect(x, y, val(u.src(2)));
      case Op::MulAcc:
        if (f) return b_.CreateIntrinsic(Intrinsic::fma, {x->getType()}, {x, y, val(u.src(2))});
        return b_.CreateAdd(b_.CreateMul(x, y), val(u.src(2)));
      default: return binary(u.op(), d, x, y);
    }
  }

  llvm::Value* convert(llvm::Value* v, DType from, DType to) {
    bool ff = is_float(from), tf = is_float(to), fu = is_uint(from) || from.kind == Kind::Bool, tu = is_uint(to);
    Type* t = type(to);
    if (to.kind == Kind::Bool) return ff ? b_.CreateFCmpUNE(v, Constant::getNullValue(v->getType())) : b_.CreateICmpNE(v, Constant::getNullValue(v->getType()));
    if (ff && tf) return b_.CreateFPCast(v, t);
    // In range since decompose(): the saturating intrinsic would be done lane by lane.
    if (ff) return tu ? b_.CreateFPToUI(v, t) : b_.CreateFPToSI(v, t);
    if (tf) return fu ? b_.CreateUIToFP(v, t) : b_.CreateSIToFP(v, t);
    return fu ? b_.CreateZExtOrTrunc(v, t) : b_.CreateSExtOrTrunc(v, t);
  }

  llvm::Value* both(ReduceKind k, DType d, llvm::Value* x, llvm::Value* y) {
    return k == ReduceKind::MaxAny ? b_.CreateSelect(b_.CreateFCmpOGT(x, y), x, y) : binary(alu_op(k), d, x, y);
  }
  // log2(lanes) rounds of halves.
  llvm::Value* horizontal(UOp u) {
    llvm::Value* v = val(u.src(0));
    int n = u.src(0).dtype().lanes;
    ReduceKind k = ReduceKind(u.arg_int());
    if (n & (n - 1)) {
      llvm::Value* r = b_.CreateExtractElement(v, u64(0));
      for (int i = 1; i < n; i++) r = both(k, u.dtype(), r, b_.CreateExtractElement(v, u64(i)));
      return r;
    }
    for (int h = n / 2; h >= 1; h /= 2) {
      SmallVector<int> lo, hi;
      for (int i = 0; i < h; i++) lo.push_back(i), hi.push_back(i + h);
      v = both(k, u.dtype().vec(u16(h)), b_.CreateShuffleVector(v, lo), b_.CreateShuffleVector(v, hi));
    }
    return b_.CreateExtractElement(v, u64(0));
  }

  LLVMContext& ctx_;
  Module& m_;
  IRBuilder<> b_;
  bool bf16_;  // the target has the dot instruction
  i64 lookup_;
  std::set<i64> past_;  // slots whose stores pass the caches by
  Function* fn_;
  MDNode* domain_;
  std::map<u32, llvm::Value*> v_;
  std::map<u32, MDNode*> scopes_;
  std::map<u32, LoopState> loops_;
  std::map<std::pair<u32, Type*>, llvm::Value*> alternatives_;
  std::map<const i64*, llvm::Value*> tables_;
};

void init_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeAllTargetInfos();
    InitializeAllTargets();
    InitializeAllTargetMCs();
    InitializeAllAsmPrinters();
  });
}

}  // namespace

Result<std::vector<u8>> compile_llvm(std::span<const UOp> linear, const std::string& entry, const Target& target, std::string* text, std::string* assembly) {
  using R = Result<std::vector<u8>>;
  init_llvm();
  LLVMContext ctx;
  Module m(entry, ctx);
  Triple triple(target.triple);
  std::string error;
  const llvm::Target* t = TargetRegistry::lookupTarget(triple, error);
  if (!t) return R::no("LLVM has no target ", target.triple, ": ", error);
  TargetOptions options;
  std::unique_ptr<TargetMachine> tm(t->createTargetMachine(triple, target.cpu, target.features, options, Reloc::PIC_, std::nullopt, CodeGenOptLevel::Default));
  if (!tm) return R::no("LLVM cannot compile for ", target.triple);
  m.setTargetTriple(triple);
  m.setDataLayout(tm->createDataLayout());
  Emitter(m, target, entry).run(linear);
  if (text) {
    raw_string_ostream os(*text);
    m.print(os, nullptr);
  }
  std::string bad;
  raw_string_ostream bads(bad);
  if (verifyModule(m, &bads)) return R::no("LLVM IR of ", entry, " is not valid: ", bad);

  // Cheap clean-up only: the tile is unrolled and the loops are in place.
  LoopAnalysisManager lam;
  FunctionAnalysisManager fam;
  CGSCCAnalysisManager cgam;
  ModuleAnalysisManager mam;
  PassBuilder pb(tm.get());
  pb.registerModuleAnalyses(mam);
  pb.registerCGSCCAnalyses(cgam);
  pb.registerFunctionAnalyses(fam);
  pb.registerLoopAnalyses(lam);
  pb.crossRegisterProxies(lam, fam, cgam, mam);
  ModulePassManager mpm;
  if (auto e = pb.parsePassPipeline(mpm, "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)"))
    return R::no("LLVM passes: ", toString(std::move(e)));
  mpm.run(m, mam);

  auto run = [&](CodeGenFileType kind, SmallVectorImpl<char>& out) {
    raw_svector_ostream os(out);
    legacy::PassManager pm;
    if (tm->addPassesToEmitFile(pm, os, nullptr, kind)) return false;
    pm.run(m);
    return true;
  };
  if (assembly) {
    SmallVector<char, 0> s;
    auto copy = CloneModule(m);
    raw_svector_ostream os(s);
    legacy::PassManager pm;
    if (!tm->addPassesToEmitFile(pm, os, nullptr, CodeGenFileType::AssemblyFile)) pm.run(*copy);
    *assembly = std::string(s.begin(), s.end());
  }
  SmallVector<char, 0> obj;
  if (!run(CodeGenFileType::ObjectFile, obj)) return R::no("LLVM emits no object for ", target.triple);
  return std::vector<u8>(obj.begin(), obj.end());
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

void llvm_host(std::string* cpu, std::vector<std::string>* features) {
  *cpu = sys::getHostCPUName().str();
  for (auto& f : sys::getHostCPUFeatures())
    if (f.getValue()) features->push_back(f.getKey().str());
  std::sort(features->begin(), features->end());
}

}  // namespace tg
