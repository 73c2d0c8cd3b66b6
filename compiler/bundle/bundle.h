// A bundle as plain structs: what the driver fills and write_bundle turns into a file, and what read_bundle gives back. The fields are
// those of formats/bundle.fbs, where they are explained; this header only says what the writer does for its caller.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/types.h"
#include "formats/dtype.h"
#include "formats/expr.h"

namespace tg::bundle {

// Bytes that the writer reads exactly once: borrowed, owned, or made on demand into a buffer of `size` bytes, so that a large constant
// never lies in memory twice. Borrowed bytes must live until write_bundle returns.
struct Bytes {
  std::span<const u8> borrowed;
  std::vector<u8> owned;
  std::function<void(std::span<u8>)> make;
  u64 size = 0;

  Bytes() = default;
  static Bytes view(std::span<const u8> b);
  static Bytes own(std::vector<u8> b);
  static Bytes lazy(u64 size, std::function<void(std::span<u8>)> make);
};

// An integer over the variables; operators fold constants. `most` is its largest value within the variables' bounds: the writer takes the
// value at the variables' upper bounds where it is not set, which is right for everything that grows with its variables.
struct Expr {
  i64 value = 0;         // where code is empty
  std::vector<u8> code;  // formats/expr.h
  std::optional<i64> most;

  Expr(i64 constant = 0) : value(constant) {}
  static Expr var(u32 index);
  static Expr op(tgf::ExprOp op, const Expr& a, const Expr& b);  // all but Const8, Const, Var, Select
  static Expr select(const Expr& cond, const Expr& a, const Expr& b);
  bool is_constant() const { return code.empty(); }
  bool operator==(const Expr&) const = default;
  friend Expr operator+(const Expr& a, const Expr& b) { return op(tgf::ExprOp::Add, a, b); }
  friend Expr operator-(const Expr& a, const Expr& b) { return op(tgf::ExprOp::Sub, a, b); }
  friend Expr operator*(const Expr& a, const Expr& b) { return op(tgf::ExprOp::Mul, a, b); }
};

struct Var {
  std::string name;
  i64 min = 0, max = 0, multiple = 1;
};

// name: empty where the size is fixed, else the variable's name or the text of the expression; var: its index where it is a variable alone.
struct Dim {
  Expr size;
  std::string name;
  i32 var = -1;
};

struct Signature {
  std::string name;
  tgf::Dtype dtype = tgf::Dtype::F32;
  std::vector<Dim> dims;
};

struct State {
  std::string input, output;
  tgf::Dtype dtype = tgf::Dtype::F32;
  u64 bytes = 0;
  i32 init = -1;
};

struct Form {
  tgf::Dtype dtype = tgf::Dtype::F32;
  std::string layout;  // "" row-major
  Bytes bytes;
  bool derived = false;  // filled by a prepare block at open: bytes.size counts, there are no bytes
};
struct Constant {
  std::string name;
  tgf::Dtype dtype = tgf::Dtype::F32;
  std::vector<i64> dims;
  std::vector<Form> forms;
};

struct Target {
  std::string device, renderer, arch;
  std::vector<std::string> needs;  // CPU: "x86_64", "avx2", "fma", "avx512f" ... (runtime-lite/backend/cpu_features.cc lists them)
};

enum class ProgramKind : u8 {
  ElfObject,
  OpenCLSource,
  OpenCLBinary,
  Cubin,
  Ptx,
  HsaCodeObject,
  MetalSource,
  MetalLibrary,
  Wgsl,
  Ir3,
  HexagonElf
};
enum class Access : u8 { Read = 1, Write = 2, ReadWrite = 3 };
struct Program {
  std::string label, entry;  // label: for people; entry: the symbol
  u32 target = 0;
  ProgramKind kind = ProgramKind::ElfObject;
  u32 object = 0;  // index of BundleDesc.objects
  std::vector<Access> params;
  u32 ints = 0;  // how many integers a launch passes
  u32 local_bytes = 0;
};

enum class BufferKind : u8 { Input, Output, Weight, State, Scratch };
struct Image {
  Expr width, height;
  tgf::Dtype dtype = tgf::Dtype::F32;
};
struct Buffer {
  BufferKind kind = BufferKind::Scratch;
  tgf::Dtype dtype = tgf::Dtype::F32;
  Expr bytes;                // weights: left 0, the form's are taken
  std::vector<u32> lies_on;  // any order of buffers, but no cycles
  u32 device = 0;
  u32 index = 0;  // which input, output, state or constant
  u32 form = 0;
  u32 align = 64;
  std::optional<Image> image;
};

struct Launch {
  u32 program = 0;
  std::vector<u32> args;  // buffers, one a parameter
  std::vector<Expr> ints;
  std::vector<Expr> grid;  // CPU: {tasks}
  std::vector<u32> block;
  std::optional<Expr> flops, bytes;
};
struct Copy {
  u32 from = 0;
  Expr from_offset;
  u32 to = 0;
  Expr to_offset;
  Expr bytes;
};
using Step = std::variant<Launch, Copy>;

struct Block;
struct Batch {
  u32 device = 0;
  std::vector<Step> steps;
};
struct ReadVar {
  u32 var = 0, buffer = 0;
  Expr offset;
};
struct SetVar {
  u32 var = 0;
  Expr value;
};
struct If {
  Expr cond;
  std::shared_ptr<Block> then, otherwise;
};
struct While {
  Expr cond;
  std::shared_ptr<Block> body;
  u64 most = 0;
};
using Command = std::variant<Batch, ReadVar, SetVar, If, While>;
struct Block {
  std::vector<Command> commands;
};

struct Bound {
  u32 var = 0;
  i64 min = 0, max = 0;
};
struct Variant {
  std::vector<u32> targets;
  std::vector<Bound> bounds;
  std::vector<Buffer> buffers;
  Block body;
  std::optional<Block> prepare;
  bool unmeasured = false;
  std::string note;
};

struct KeyValue {
  std::string key, value;
};
struct Provenance {
  std::string made_by, model, model_digest, licence, log;
  std::vector<KeyValue> settings;
};

struct TestTensor {
  Bytes bytes;
  std::vector<i64> dims;
};
struct TestVector {
  std::string name;
  std::vector<TestTensor> inputs, outputs;
  f64 absolute = 0, relative = 0;
};

struct TargetKernels {
  u32 target = 0;
  std::vector<u8> bytes;
};
struct Portable {
  std::vector<u8> graph;
  std::vector<TargetKernels> kernels;
};

struct BundleDesc {
  std::vector<Signature> inputs, outputs;
  std::vector<State> states;
  std::vector<Var> vars;
  std::vector<Constant> constants;
  std::vector<Target> targets;
  std::vector<Bytes> objects;  // machine code or source, each shared by the programs that name it
  std::vector<Program> programs;
  std::vector<Variant> variants;
  std::optional<Portable> portable;  // none: stripped
  Provenance provenance;
  std::vector<TestVector> tests;
};

struct WriteOptions {
  bool compress = false;  // weights by zstd: the bundle then needs a runtime built with TGB_ZSTD
};
struct WriteStats {
  u64 file_bytes = 0, meta_bytes = 0, program_bytes = 0, weight_bytes = 0, portable_bytes = 0;
};

// Writes the file whole or not at all. The same description gives the same bytes. Indices that do not exist and shapes that do not fit are
// our own fault (TG_CHECK); a file that cannot be written is an Error that names it.
WriteStats write_bundle(const BundleDesc& desc, const std::string& path, const WriteOptions& options = {});

// A bundle read back. Its Bytes are views into the mapped file (compressed ones are unpacked into it first), which lives as long as this.
struct Loaded {
  BundleDesc desc;
  std::shared_ptr<const void> storage;
  u32 min_runtime = 0;
  u64 features = 0;
};
// Anything but an intact bundle is an Error that names the file and what is wrong with it; all digests are checked.
Loaded read_bundle(const std::string& path);

// The arena of device `device` (index of Variant.targets) at the variables' upper bounds: offsets of the buffers that lie in it, and its
// size. The same rule as the runtime's: formats/README.md, "Memory".
struct Arena {
  std::vector<i64> offsets;  // of every buffer; -1: not in this arena
  i64 bytes = 0;
};
Arena plan_arena(const Variant& variant, const std::vector<Var>& vars, u32 device);

}  // namespace tg::bundle
