// An ONNX op is a row of a table of its family: name, the opset that gave it this meaning, and the function that builds its tensor graph.
// OnnxNode is what such a function sees of a node.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/pool.h"
#include "frontend/tensor.h"

namespace tgonnx {
class NodeProto;
class AttributeProto;
class TensorProto;
class GraphProto;
}  // namespace tgonnx

namespace tg {

using Tensors = std::vector<Tensor>;
class OnnxNode;

// A row's right side: a function of the node that gives one Tensor or Tensors (an output that is not wanted may be an absent Tensor), or the
// reason why the op is refused.
struct Refused {
  const char* why;
};
class OnnxFn {
 public:
  constexpr OnnxFn(Refused r) : why_(r.why) {}
  template <class F>
  constexpr OnnxFn(F f) {
    if constexpr (std::is_convertible_v<F, Tensor (*)(OnnxNode&)>) one_ = f;
    else many_ = f;
  }
  Tensors operator()(OnnxNode& n) const { return one_ ? Tensors{one_(n)} : many_(n); }
  constexpr const char* refused() const { return why_; }

 private:
  Tensor (*one_)(OnnxNode&) = nullptr;
  Tensors (*many_)(OnnxNode&) = nullptr;
  const char* why_ = nullptr;
};

struct OnnxOp {
  std::string_view name;
  int since;   // of all rows with the name, the newest not above the model's opset is used
  OnnxFn fn;
};
struct OnnxFamily {
  std::string_view domain;   // "" is ai.onnx
  std::string_view name;
  std::span<const OnnxOp> ops;
};
// All families; op_tables.cc lists them.
std::span<const OnnxFamily> onnx_families();

struct OpRow {
  std::string_view domain, name, family;
  int since;
  const char* refused;  // null: built
};
std::vector<OpRow> op_table();  // sorted by domain, name, since
// The row for an op at an opset; null and, in `why`, the reason if there is none.
const OnnxOp* find_op(std::string_view domain, std::string_view name, i64 opset, std::string* why);

class OnnxNode {
 public:
  using Attrs = std::unordered_map<std::string_view, const tgonnx::AttributeProto*>;
  // Builds the outputs of a graph that is an attribute of this node, over values of its inputs; names of the graphs around it are seen.
  // why: null, and problems are the model's; else they are no more than written there, and nothing is built.
  using Subgraph = std::optional<Tensors> (*)(void* ctx, const tgonnx::GraphProto& g, std::span<const Tensor> inputs, std::string* why);

  OnnxNode(const tgonnx::NodeProto& p, i64 opset, std::vector<Tensor> inputs);

  // --- inputs
  size_t inputs() const { return in_.size(); }
  bool has(size_t i) const { return i < in_.size() && in_[i]; }
  Tensor operator[](size_t i) const;                       // absent or no tensor (frontend/sequence.h): fails, naming the input's number
  Tensor opt(size_t i) const { return has(i) ? (*this)[i] : Tensor(); }
  Tensor any(size_t i) const;                              // a sequence or an optional without a value too
  // An input that must be known at compile time: fails, naming the node, if it is not.
  const Values& constant(size_t i) const;
  Ints ints(size_t i) const;                               // its elements, integers or bools
  i64 integer(size_t i) const;                             // its only element
  std::vector<f64> floats(size_t i) const;                 // floats or integers
  f64 number(size_t i) const;
  Shape dims(size_t i) const;                              // elements as dims, which may be expressions of free sizes
  UOp dim(size_t i) const;                                 // its only element as one
  bool is_constant(size_t i) const;                        // small enough to be read by the above
  bool has_dims(size_t i) const;                           // dims(i) gives an answer

  // Input i decides nothing but the shape of output k, is not known at compile time, and the model declares that shape with fixed sizes: they.
  // The user is told. Otherwise nothing, and asking for the input fails if it is not constant. Who takes them says by must_have() what they are.
  std::optional<Ints> declared(size_t k, size_t i) const;
  std::optional<Ints> declared(size_t k) const;            // whatever decides it
  // Element a of `sizes`, a list of integers, is what axis a of output k has: a run where it is not what the model declares ends with an error.
  void must_have(const Tensor& sizes, const Ints& declared, size_t k = 0) const;

  // A size that only the run knows: `count` is one integer from 0 to most. A constant count gives a constant. It is called what the model calls
  // axis `axis` of output k, or after the output; --var gives it other bounds by that name. No `most`: --var must give it.
  UOp measured(const Tensor& count, std::optional<i64> most, size_t k = 0, i64 axis = 0) const;
  // The most that --var allows it to be; none: it has no such --var.
  std::optional<i64> most_allowed(size_t k = 0, i64 axis = 0) const;

  // Element e of input i, a list of integers: as an expression if that is known, else what `otherwise` makes of its value, an i64 of shape ().
  template <class F>
  UOp dim_or(size_t i, i64 e, F otherwise) const {
    Tensor x = (*this)[i];
    require(is_int(x.dtype()) && x.rank() <= 1, "input ", i, " must be a list of integers");
    if (UOp d = known_dim(i, e)) return d;
    return otherwise((x.rank() ? x.shrink(0, e, 1) : x).cast(Kind::I64).reshape(Shape{}));
  }

  // A run whose condition is not `wanted` is an error of the run, which says what; inside a side of a branch that is not known here: a run that
  // takes that side.
  void must_be(const Tensor& condition, bool wanted, const std::string& what) const;
  // What has been measured, and that what was measured since then is not wanted after all.
  size_t measures() const { return count_(ctx_); }
  void forget_measures(size_t from) const { forget_(ctx_, from); }
  // Says something to the user.
  void note(const std::string& text) const { note_(ctx_, str(where(), ": ", text)); }
  // While it lives, what is built is a side of a branch whose condition only the run knows.
  struct Side {
    Side(const OnnxNode& n, UOp taken) : all(*n.sides_) { all.push_back(taken); }
    ~Side() { all.pop_back(); }
    Side(const Side&) = delete;
    std::vector<UOp>& all;
  };

  // --- attributes
  bool has_attr(std::string_view name) const { return attrs_.count(name); }
  i64 attr(std::string_view name, int def) const { return attr(name, i64(def)); }
  i64 attr(std::string_view name, i64 def) const;
  f32 attr(std::string_view name, f32 def) const;
  std::string attr(std::string_view name, const char* def) const;
  Ints attr(std::string_view name, const Ints& def) const;
  std::vector<f32> attr_floats(std::string_view name) const;           // absent: empty
  std::vector<std::string> attr_strings(std::string_view name) const;
  i64 attr_int(std::string_view name) const;               // required
  Ints attr_ints(std::string_view name) const;             // required
  std::string attr_string(std::string_view name) const;    // required
  Tensor attr_tensor(std::string_view name) const;         // required; a constant of the graph
  const tgonnx::GraphProto& attr_graph(std::string_view name) const;
  DType attr_dtype(std::string_view name, DType def) const;   // a TensorProto.DataType

  // --- the node
  i64 opset() const { return opset_; }
  const std::string& op() const;
  const std::string& name() const;
  size_t outputs() const { return wanted_.size(); }
  bool wants(size_t k) const { return k < wanted_.size() && wanted_[k]; }   // output k has a name
  std::string where() const;                               // Conv node "/layer1/conv" (opset 11)
  template <class... A>
  [[noreturn]] void fail(const A&... parts) const {
    tg::fail(where(), ": ", parts...);
  }
  template <class... A>
  void require(bool ok, const A&... parts) const {
    if (!ok) fail(parts...);
  }
  Tensors subgraph(const tgonnx::GraphProto& g, std::span<const Tensor> inputs = {}) const;
  // The same where there is another way if it cannot be built.
  std::optional<Tensors> try_subgraph(const tgonnx::GraphProto& g, std::span<const Tensor> inputs, std::string* why) const;

 private:
  friend class Importer;
  UOp known_dim(size_t i, i64 e) const;
  const tgonnx::AttributeProto* find(std::string_view name, int type, const char* kind) const;
  const tgonnx::NodeProto& p_;
  i64 opset_;
  std::vector<Tensor> in_;
  std::vector<u8> wanted_;
  Attrs attrs_;
  Subgraph subgraph_ = nullptr;
  void* ctx_ = nullptr;
  std::vector<UOp>* sides_ = nullptr;  // conditions of the branches around it
  Tensor (*tensor_)(void* ctx, const tgonnx::TensorProto&) = nullptr;
  std::optional<Ints> (*declared_)(void* ctx, const std::string& value) = nullptr;
  void (*require_)(void* ctx, const std::string& what, UOp value, i64 wanted) = nullptr;
  std::optional<i64> (*allowed_)(void* ctx, const std::string& value, i64 axis) = nullptr;
  UOp (*measure_)(void* ctx, const std::string& value, i64 axis, UOp count, std::optional<i64> most) = nullptr;
  void (*note_)(void* ctx, const std::string& text) = nullptr;
  size_t (*count_)(void* ctx) = nullptr;
  void (*forget_)(void* ctx, size_t from) = nullptr;
};

// Input 1 of an elementwise op before opset 7: with broadcast=1 its axes are those of input 0 from `axis` on, or the last ones; else both have
// one shape.
Tensor placed_operand(OnnxNode& n);

// The dtype of TensorProto.DataType n; strings, complex and unknown ones throw an Error naming `what`.
DType onnx_dtype(i64 n, std::string_view what);

}  // namespace tg
