// The op registry. For each op it has signature, attributes, shape function, gradient and documentation in one place.
// Signatures are in TensorFlow's notation:
//
//   RIVULET_OP("MatMul")
//       .Input("a: T").Input("b: T").Output("product: T")
//       .Attr("transpose_a: bool = false").Attr("transpose_b: bool = false")
//       .Attr("T: {half, bfloat16, float, double, int32, int64}")
//       .Shape(MatMulShape)
//       .Gradient(MatMulGradient)          // or .NotDifferentiable("why")
//       .Doc("Matrix product a · b.");
//
// Types: an input or output is "name: TYPE", "name: T" (a type attr), "name: N * T" or "name: Tlist". Attr kinds: int,
// float, bool, string, type, shape, tensor, func, list(int|float|string|type|shape|func). "{a, b}" lists allowed types
// or strings; ">= n" bounds an int or a list's length; "= value" is the default. The names numbertype and
// realnumbertype abbreviate the numeric types. The name floattype abbreviates {half, bfloat16, float, double}: a kernel
// for float serves half and bfloat16 too (program/via_float32.h). Attributes named "_…" are free. A node may omit a
// type or number attribute that follows from its inputs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/attr.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Input and output of a shape function.
class InferenceContext {
 public:
  virtual ~InferenceContext() = default;
  virtual std::string_view node_name() const = 0;
  virtual int num_inputs() const = 0;
  // A resource input (variable handle) has its variable's shape: VarHandleOp sets it, ReadVariableOp passes it on.
  virtual const Shape& input(int i) const = 0;
  virtual DType input_dtype(int i) const = 0;
  // The value of input i if it is known now (a Const, or foldable from constants); nullptr otherwise.
  virtual const Tensor* input_value(int i) const = 0;
  // The known part of the shape that input i, a vector of sizes, describes even if its value is unknown: the output of
  // `Shape` of a partly known tensor. nullopt if nothing is known.
  virtual std::optional<rivulet::Shape> input_as_shape(int i) const {
    (void)i;
    return std::nullopt;
  }
  virtual const AttrMap& attrs() const = 0;
  // A function of the node's graph; nullptr if there is none of this name.
  virtual const Function* FindFunction(std::string_view name) const {
    (void)name;
    return nullptr;
  }
  virtual void set_output(int i, Shape shape) = 0;
  template <typename T>
  const T& attr(const std::string& name) const {
    return std::get<T>(attrs().at(name));
  }
  // The input's shape if its rank is `rank`, unknown dimensions if its rank is unknown, else INVALID_ARGUMENT.
  StatusOr<Shape> WithRank(int i, int rank) const;
};
using ShapeFn = std::function<Status(InferenceContext&)>;

class GradientContext;  // engine/gradients/gradients.h
using GradientFn = std::function<Status(GradientContext&)>;

struct ArgDef {
  std::string name;
  DType dtype = DType::kInvalid;  // a fixed type, or
  std::string type_attr;          // the attribute with the type, or
  std::string number_attr;        // the attribute with the number of copies, or
  std::string type_list_attr;     // a list(type) attribute
};

struct AttrDef {
  enum class Kind {
    kInt,
    kFloat,
    kBool,
    kString,
    kType,
    kShape,
    kTensor,
    kFunc,
    kIntList,
    kFloatList,
    kBoolList,
    kStringList,
    kTypeList,
    kShapeList,
    kFuncList
  };
  std::string name;
  Kind kind = Kind::kInt;
  std::vector<DType> allowed_types;
  std::vector<std::string> allowed_strings;
  std::optional<int64_t> minimum;
  std::optional<AttrValue> default_value;
};

struct OpDef {
  std::string name;
  std::vector<ArgDef> inputs;
  std::vector<ArgDef> outputs;
  std::vector<AttrDef> attrs;
  ShapeFn shape;
  GradientFn gradient;             // null: not differentiable
  std::string not_differentiable;  // the reason; both are empty only if unspecified (refused by the census test)
  bool stateful = false;  // reads or writes variables, draws random numbers, or has another effect: never folded
                          // or merged, and run in graph order where control edges say so
  std::string doc;
  std::string registered_at;  // "file:line"
  const AttrDef* FindAttr(std::string_view attr_name) const;
};

class OpRegistry {
 public:
  static OpRegistry& Global();
  // A second registration of a name stops the program with both places.
  void Register(OpDef def);
  const OpDef* Find(std::string_view name) const;
  StatusOr<const OpDef*> Get(std::string_view name) const;  // NOT_FOUND with the nearest name
  std::vector<const OpDef*> All() const;                    // sorted by name

 private:
  std::vector<std::unique_ptr<OpDef>> ops_;
  std::unordered_map<std::string, const OpDef*> by_name_;
};

class OpDefBuilder {
 public:
  explicit OpDefBuilder(std::string name, const char* file, int line);
  OpDefBuilder& Input(std::string_view spec);
  OpDefBuilder& Output(std::string_view spec);
  OpDefBuilder& Attr(std::string_view spec);
  OpDefBuilder& Shape(ShapeFn fn);
  OpDefBuilder& Gradient(GradientFn fn);
  OpDefBuilder& NotDifferentiable(std::string why);
  OpDefBuilder& Stateful();
  OpDefBuilder& Doc(std::string doc);
  OpDef Build() const;

 private:
  OpDef def_;
};

namespace internal {
struct OpRegistration {
  OpRegistration(const OpDefBuilder& builder) { OpRegistry::Global().Register(builder.Build()); }  // NOLINT
};
}  // namespace internal

#define RIVULET_OP(name) RIVULET_OP_IMPL_(name, __COUNTER__)
#define RIVULET_OP_IMPL_(name, counter) RIVULET_OP_IMPL2_(name, counter)
#define RIVULET_OP_IMPL2_(name, counter)                                                   \
  [[maybe_unused]] static const ::rivulet::internal::OpRegistration rivulet_op_##counter = \
      ::rivulet::OpDefBuilder(name, __FILE__, __LINE__)

}  // namespace rivulet
