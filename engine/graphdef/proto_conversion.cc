#include "engine/graphdef/proto_conversion.h"

#include <algorithm>

#include "engine/tensor/text.h"

namespace rivulet {
namespace {

using Kind = AttrDef::Kind;

constexpr int kMaxRank = 254;  // TensorFlow's
constexpr int kRefOffset = 100;

proto::DataType Number(DType dtype) { return static_cast<proto::DataType>(static_cast<int>(dtype)); }

// Writes the values of a typed field into `tensor`, the last one repeated to the end.
// TensorFlow writes one value for a tensor of equal ones. It is read so, and never written, since bytes must be
// canonical.
template <typename T, typename Values>
void Fill(const Values& values, Tensor& tensor) {
  T* out = reinterpret_cast<T*>(tensor.data());
  const size_t elements = static_cast<size_t>(tensor.elements());
  size_t given = 0;
  for (const auto& value : values) out[given++] = static_cast<T>(value);
  std::fill(out + given, out + elements, given == 0 ? T{} : out[given - 1]);
}

template <typename T, typename Values>
Status Read(const Values& values, Tensor& tensor) {
  if (static_cast<int64_t>(values.size()) > tensor.elements())
    return InvalidArgument("a tensor of shape {} holds {} values", tensor.shape().ToString(), values.size());
  Fill<T>(values, tensor);
  return absl::OkStatus();
}

Status ReadTyped(const proto::TensorProto& proto, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return Read<float>(proto.float_val(), tensor);
    case DType::kFloat64:
      return Read<double>(proto.double_val(), tensor);
    case DType::kInt32:
      return Read<int32_t>(proto.int_val(), tensor);
    case DType::kUint8:
      return Read<uint8_t>(proto.int_val(), tensor);
    case DType::kInt16:
      return Read<int16_t>(proto.int_val(), tensor);
    case DType::kInt8:
      return Read<int8_t>(proto.int_val(), tensor);
    case DType::kUint16:
      return Read<uint16_t>(proto.int_val(), tensor);
    case DType::kInt64:
      return Read<int64_t>(proto.int64_val(), tensor);
    case DType::kBool:
      return Read<bool>(proto.bool_val(), tensor);
    case DType::kFloat16:
    case DType::kBFloat16:
      return Read<uint16_t>(proto.half_val(), tensor);
    case DType::kUint32:
      return Read<uint32_t>(proto.uint32_val(), tensor);
    case DType::kUint64:
      return Read<uint64_t>(proto.uint64_val(), tensor);
    case DType::kString: {
      std::vector<uint64_t> numbers;
      for (const std::string& text : proto.string_val()) {
        RIVULET_ASSIGN_OR_RETURN(numbers.emplace_back(), NumberOfText(text));
      }
      return Read<uint64_t>(numbers, tensor);
    }
    default:
      return Unimplemented("tensors of type {} have no values here", Name(tensor.dtype()));
  }
}

// The kind of an AttrValue message's content, in the notation of signatures.
std::string_view Held(const proto::AttrValue& proto) {
  switch (proto.value_case()) {
    case proto::AttrValue::kList:
      return "a list";
    case proto::AttrValue::kS:
      return "a string";
    case proto::AttrValue::kI:
      return "an int";
    case proto::AttrValue::kF:
      return "a float";
    case proto::AttrValue::kB:
      return "a bool";
    case proto::AttrValue::kType:
      return "a type";
    case proto::AttrValue::kShape:
      return "a shape";
    case proto::AttrValue::kTensor:
      return "a tensor";
    case proto::AttrValue::kPlaceholder:
      return "a placeholder";
    case proto::AttrValue::kFunc:
      return "a function";
    case proto::AttrValue::VALUE_NOT_SET:
      break;
  }
  return "nothing";
}

std::string_view Wanted(Kind kind) {
  switch (kind) {
    case Kind::kInt:
      return "an int";
    case Kind::kFloat:
      return "a float";
    case Kind::kBool:
      return "a bool";
    case Kind::kString:
      return "a string";
    case Kind::kType:
      return "a type";
    case Kind::kShape:
      return "a shape";
    case Kind::kTensor:
      return "a tensor";
    case Kind::kFunc:
      return "a function";
    case Kind::kIntList:
      return "a list of ints";
    case Kind::kFloatList:
      return "a list of floats";
    case Kind::kBoolList:
      return "a list of bools";
    case Kind::kStringList:
      return "a list of strings";
    case Kind::kTypeList:
      return "a list of types";
    case Kind::kShapeList:
      return "a list of shapes";
    case Kind::kFuncList:
      return "a list of functions";
  }
  return "?";
}

int ListElements(const proto::AttrValue::ListValue& list) {
  return list.s_size() + list.i_size() + list.f_size() + list.b_size() + list.type_size() + list.shape_size() +
         list.tensor_size() + list.func_size();
}

Kind KindHeld(const proto::AttrValue& proto) {
  switch (proto.value_case()) {
    case proto::AttrValue::kS:
      return Kind::kString;
    case proto::AttrValue::kF:
      return Kind::kFloat;
    case proto::AttrValue::kB:
      return Kind::kBool;
    case proto::AttrValue::kType:
      return Kind::kType;
    case proto::AttrValue::kShape:
      return Kind::kShape;
    case proto::AttrValue::kTensor:
      return Kind::kTensor;
    case proto::AttrValue::kFunc:
      return Kind::kFunc;
    case proto::AttrValue::kList:
      if (proto.list().s_size() > 0) return Kind::kStringList;
      if (proto.list().f_size() > 0) return Kind::kFloatList;
      if (proto.list().b_size() > 0) return Kind::kBoolList;
      if (proto.list().type_size() > 0) return Kind::kTypeList;
      if (proto.list().shape_size() > 0) return Kind::kShapeList;
      if (proto.list().func_size() > 0) return Kind::kFuncList;
      return Kind::kIntList;
    default:
      return Kind::kInt;
  }
}

// Attributes of the reference would make the function polymorphic; those that only configure the runtime ("_…") are
// ignored.
StatusOr<FunctionRef> FunctionFromProto(const proto::NameAttrList& proto) {
  if (proto.name().empty()) return InvalidArgument("names no function");
  for (const auto& [name, value] : proto.attr())
    if (!name.starts_with('_'))
      return Unimplemented("gives the function '{}' an attribute '{}'; functions here take none", proto.name(), name);
  return FunctionRef{proto.name()};
}

}  // namespace

void ToProto(const Shape& shape, proto::TensorShapeProto* out) {
  out->set_unknown_rank(!shape.known_rank());
  for (int64_t size : shape.dims()) out->add_dim()->set_size(size);
}

void ToProto(const Tensor& tensor, proto::TensorProto* out) {
  out->set_dtype(Number(tensor.dtype()));
  ToProto(tensor.shape(), out->mutable_tensor_shape());
  if (tensor.empty()) return;
  if (tensor.dtype() == DType::kString) {
    for (const std::string_view text : TextsOf(tensor)) out->add_string_val(text.data(), text.size());
  } else {
    out->set_tensor_content(tensor.data(), tensor.bytes());
  }
}

void ToProto(const AttrValue& value, proto::AttrValue* out) {
  struct Visitor {
    proto::AttrValue* out;
    void operator()(int64_t v) const { out->set_i(v); }
    void operator()(float v) const { out->set_f(v); }
    void operator()(bool v) const { out->set_b(v); }
    void operator()(const std::string& v) const { out->set_s(v); }
    void operator()(DType v) const { out->set_type(Number(v)); }
    void operator()(const Shape& v) const { ToProto(v, out->mutable_shape()); }
    void operator()(const Tensor& v) const { ToProto(v, out->mutable_tensor()); }
    void operator()(const FunctionRef& v) const { out->mutable_func()->set_name(v.name); }
    void operator()(const std::vector<int64_t>& list) const {
      out->mutable_list();
      for (int64_t v : list) out->mutable_list()->add_i(v);
    }
    void operator()(const std::vector<float>& list) const {
      out->mutable_list();
      for (float v : list) out->mutable_list()->add_f(v);
    }
    void operator()(const std::vector<bool>& list) const {
      out->mutable_list();
      for (bool v : list) out->mutable_list()->add_b(v);
    }
    void operator()(const std::vector<std::string>& list) const {
      out->mutable_list();
      for (const std::string& v : list) out->mutable_list()->add_s(v);
    }
    void operator()(const std::vector<DType>& list) const {
      out->mutable_list();
      for (DType v : list) out->mutable_list()->add_type(Number(v));
    }
    void operator()(const std::vector<Shape>& list) const {
      out->mutable_list();
      for (const Shape& v : list) ToProto(v, out->mutable_list()->add_shape());
    }
    void operator()(const std::vector<FunctionRef>& list) const {
      out->mutable_list();
      for (const FunctionRef& v : list) out->mutable_list()->add_func()->set_name(v.name);
    }
  };
  std::visit(Visitor{out}, value);
}

// A product beyond all limits is refused even where a dimension is unknown: the known ones alone are too large then. A
// zero makes any product harmless.
StatusOr<Shape> ShapeFromProto(const proto::TensorShapeProto& proto) {
  if (proto.unknown_rank()) {
    if (proto.dim_size() > 0) return InvalidArgument("a shape of unknown rank has {} dimensions", proto.dim_size());
    return Shape::UnknownRank();
  }
  if (proto.dim_size() > kMaxRank)
    return InvalidArgument("a shape has {} dimensions, more than {}", proto.dim_size(), kMaxRank);
  std::vector<int64_t> dims;
  Shape known;
  bool empty = false;
  for (const auto& dim : proto.dim()) {
    if (dim.size() < kUnknownDim) return InvalidArgument("a shape has the impossible dimension {}", dim.size());
    dims.push_back(dim.size());
    empty = empty || dim.size() == 0;
  }
  std::vector<int64_t> sizes = dims;
  std::erase(sizes, kUnknownDim);
  if (!empty) RIVULET_RETURN_IF_ERROR(Shape(std::move(sizes)).CheckedElements().status());
  return Shape(std::move(dims));
}

StatusOr<DType> DTypeFromProto(int number) {
  return DTypeFromNumber(number > kRefOffset && number < 2 * kRefOffset ? number - kRefOffset : number);
}

StatusOr<Tensor> TensorFromProto(const proto::TensorProto& proto, size_t& fill_budget) {
  RIVULET_ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(proto.dtype()));
  RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(proto.tensor_shape()));
  if (SizeOf(dtype) == 0) return Unimplemented("tensors of type {} have no values here", Name(dtype));
  RIVULET_ASSIGN_OR_RETURN(const int64_t elements, shape.CheckedElements());
  const size_t bytes = static_cast<size_t>(elements) * SizeOf(dtype);
  if (!proto.tensor_content().empty() && dtype == DType::kString)
    return Unimplemented("a string tensor as content of one piece; write its texts one by one");
  if (!proto.tensor_content().empty()) {
    if (proto.tensor_content().size() != bytes)
      return InvalidArgument("a {} tensor of shape {} has {} bytes, but its content has {}", Name(dtype),
                             shape.ToString(), bytes, proto.tensor_content().size());
    Tensor tensor(dtype, std::move(shape));
    std::memcpy(tensor.data(), proto.tensor_content().data(), bytes);
    if (dtype == DType::kBool)  // any other byte would be no bool
      std::transform(tensor.data(), tensor.data() + bytes, tensor.data(),
                     [](std::byte b) { return std::byte{b != std::byte{0}}; });
    return tensor;
  }
  // A few bytes of message may ask for much memory here.
  constexpr size_t kFree = 4096;
  if (bytes > kFree) {
    if (bytes > fill_budget)
      return ResourceExhausted("a {} tensor of shape {} would be filled with {} bytes, more than is allowed",
                               Name(dtype), shape.ToString(), bytes);
    fill_budget -= bytes;
  }
  Tensor tensor(dtype, std::move(shape));
  RIVULET_RETURN_IF_ERROR(ReadTyped(proto, tensor));
  return tensor;
}

StatusOr<AttrValue> AttrFromProto(const proto::AttrValue& proto, const AttrDef* def, size_t& fill_budget) {
  const Kind kind = def != nullptr ? def->kind : KindHeld(proto);
  const auto& list = proto.list();
  const Status mismatch = proto.value_case() == proto::AttrValue::kList && kind >= Kind::kIntList
                              ? InvalidArgument("must hold {}, but its list has elements of another kind", Wanted(kind))
                              : InvalidArgument("must hold {}, but holds {}", Wanted(kind), Held(proto));
  const auto want = [&](proto::AttrValue::ValueCase value_case) {
    return proto.value_case() == value_case ? absl::OkStatus() : mismatch;
  };
  const auto want_list = [&](int elements) {
    return proto.value_case() == proto::AttrValue::kList && ListElements(list) == elements ? absl::OkStatus()
                                                                                           : mismatch;
  };
  switch (kind) {
    case Kind::kInt:
      RIVULET_RETURN_IF_ERROR(want(proto::AttrValue::kI));
      return AttrValue(int64_t{proto.i()});
    case Kind::kFloat:
      RIVULET_RETURN_IF_ERROR(want(proto::AttrValue::kF));
      return AttrValue(proto.f());
    case Kind::kBool:
      RIVULET_RETURN_IF_ERROR(want(proto::AttrValue::kB));
      return AttrValue(proto.b());
    case Kind::kString:
      RIVULET_RETURN_IF_ERROR(want(proto::AttrValue::kS));
      return AttrValue(proto.s());
    case Kind::kType: {
      RIVULET_RETURN_IF_ERROR(want(proto::AttrValue::kType));
      RIVULET_ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(proto.type()));
      return AttrValue(dtype);
    }
    case Kind::kShape: {
      RIVULET_RETURN_IF_ERROR(want(proto::AttrValue::kShape));
      RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(proto.shape()));
      return AttrValue(std::move(shape));
    }
    case Kind::kTensor: {
      RIVULET_RETURN_IF_ERROR(want(proto::AttrValue::kTensor));
      RIVULET_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(proto.tensor(), fill_budget));
      return AttrValue(std::move(tensor));
    }
    case Kind::kFunc:
      RIVULET_RETURN_IF_ERROR(want(proto::AttrValue::kFunc));
      return FunctionFromProto(proto.func());
    case Kind::kIntList:
      RIVULET_RETURN_IF_ERROR(want_list(list.i_size()));
      return AttrValue(std::vector<int64_t>(list.i().begin(), list.i().end()));
    case Kind::kFloatList:
      RIVULET_RETURN_IF_ERROR(want_list(list.f_size()));
      return AttrValue(std::vector<float>(list.f().begin(), list.f().end()));
    case Kind::kBoolList:
      RIVULET_RETURN_IF_ERROR(want_list(list.b_size()));
      return AttrValue(std::vector<bool>(list.b().begin(), list.b().end()));
    case Kind::kStringList:
      RIVULET_RETURN_IF_ERROR(want_list(list.s_size()));
      return AttrValue(std::vector<std::string>(list.s().begin(), list.s().end()));
    case Kind::kTypeList: {
      RIVULET_RETURN_IF_ERROR(want_list(list.type_size()));
      std::vector<DType> types;
      for (int number : list.type()) {
        RIVULET_ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(number));
        types.push_back(dtype);
      }
      return AttrValue(std::move(types));
    }
    case Kind::kShapeList: {
      RIVULET_RETURN_IF_ERROR(want_list(list.shape_size()));
      std::vector<Shape> shapes;
      for (const auto& each : list.shape()) {
        RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(each));
        shapes.push_back(std::move(shape));
      }
      return AttrValue(std::move(shapes));
    }
    case Kind::kFuncList: {
      RIVULET_RETURN_IF_ERROR(want_list(list.func_size()));
      std::vector<FunctionRef> functions;
      for (const auto& each : list.func()) {
        RIVULET_ASSIGN_OR_RETURN(FunctionRef function, FunctionFromProto(each));
        functions.push_back(std::move(function));
      }
      return AttrValue(std::move(functions));
    }
  }
  return mismatch;
}

}  // namespace rivulet
