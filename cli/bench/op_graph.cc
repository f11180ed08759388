// Conversion of command line arguments to a graph of one op.

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "cli/command.h"
#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/profile/op_bench.h"

namespace rivulet {
namespace {

template <typename T>
bool ParseNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// "64x784", "64,784", "[64,784]", "scalar".
StatusOr<Shape> ParseShape(std::string_view text) {
  const std::string_view whole = text;
  if (text == "scalar" || text == "[]") return Shape{};
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<int64_t> dims;
  for (const std::string& part : Split(text, text.find('x') != std::string_view::npos ? 'x' : ',')) {
    int64_t dim = 0;
    if (!ParseNumber(part, dim) || dim < 0)
      return UsageError("--shape takes sizes such as 64x784, 'scalar', or values such as =1,0; not '{}'", whole);
    dims.push_back(dim);
  }
  if (dims.empty() || dims.size() > 8) return UsageError("--shape '{}' has no sizes, or more than 8", whole);
  const Shape shape(dims);
  if (!shape.CheckedElements().ok() || *shape.CheckedElements() > int64_t{1} << 28)
    return UsageError("--shape '{}' is larger than the 2^28 elements that are measured", whole);
  return shape;
}

StatusOr<AttrValue> ParseAttr(const AttrDef& def, const std::string& text) {
  using Kind = AttrDef::Kind;
  const auto wrong = [&](std::string_view wanted) {
    return UsageError("--attr {} takes {}, not '{}'", def.name, wanted, text);
  };
  int64_t integer = 0;
  float real = 0;
  switch (def.kind) {
    case Kind::kInt:
      if (!ParseNumber(text, integer)) return wrong("an integer");
      return AttrValue(integer);
    case Kind::kFloat:
      if (!ParseNumber(text, real)) return wrong("a number");
      return AttrValue(real);
    case Kind::kBool:
      if (text != "true" && text != "false") return wrong("true or false");
      return AttrValue(text == "true");
    case Kind::kString:
      return AttrValue(text);
    case Kind::kType: {
      const StatusOr<DType> dtype = DTypeFromName(text);
      if (!dtype.ok()) return AsUsageError(dtype.status());
      return AttrValue(*dtype);
    }
    case Kind::kShape: {
      RIVULET_ASSIGN_OR_RETURN(Shape shape, ParseShape(text));
      return AttrValue(std::move(shape));
    }
    case Kind::kIntList: {
      std::vector<int64_t> values;
      for (const std::string& part : Split(text, ',')) {
        if (!ParseNumber(part, integer)) return wrong("integers such as 1,2,2,1");
        values.push_back(integer);
      }
      return AttrValue(std::move(values));
    }
    case Kind::kFloatList: {
      std::vector<float> values;
      for (const std::string& part : Split(text, ',')) {
        if (!ParseNumber(part, real)) return wrong("numbers such as 0.5,1");
        values.push_back(real);
      }
      return AttrValue(std::move(values));
    }
    case Kind::kStringList:
      return AttrValue(Split(text, ','));
    default:
      return UsageError("--attr {}: an attribute of its kind cannot be given on the command line", def.name);
  }
}

bool Allows(const AttrDef& def, DType dtype) {
  return def.allowed_types.empty() ||
         std::find(def.allowed_types.begin(), def.allowed_types.end(), dtype) != def.allowed_types.end();
}

// The value of a type attribute that is not given: `wanted` if permitted, else its default.
DType TypeFor(const OpDef& op, const std::string& attr, DType wanted) {
  const AttrDef* def = op.FindAttr(attr);
  if (def == nullptr) return wanted;
  if (def->default_value.has_value() && attr != "T" && attr != "dtype")
    if (const auto* dtype = std::get_if<DType>(&*def->default_value)) return *dtype;
  if (Allows(*def, wanted)) return wanted;
  return def->allowed_types.front();
}

// The attributes of --attr, and the type attributes that no input determines.
StatusOr<AttrMap> AttrsOf(const OpDef& op, const OpBenchOptions& options, DType dtype) {
  AttrMap attrs;
  for (const std::string& attr : options.attrs) {
    const size_t equals = attr.find('=');
    if (equals == std::string::npos || equals == 0) return UsageError("--attr takes NAME=VALUE, not '{}'", attr);
    const std::string name = attr.substr(0, equals);
    const AttrDef* def = op.FindAttr(name);
    if (def == nullptr) {
      std::vector<std::string> known;
      for (const AttrDef& one : op.attrs) known.push_back(one.name);
      return UsageError("op '{}' has no attribute '{}'; it has {}.{}", op.name, name, Join(known, ", "),
                        DidYouMean(name, known));
    }
    RIVULET_ASSIGN_OR_RETURN(attrs[name], ParseAttr(*def, attr.substr(equals + 1)));
  }
  for (const AttrDef& def : op.attrs) {
    const bool told = std::any_of(op.inputs.begin(), op.inputs.end(), [&](const ArgDef& arg) {
      return arg.type_attr == def.name || arg.type_list_attr == def.name;
    });
    if (def.kind == AttrDef::Kind::kType && !told && !def.default_value && !attrs.contains(def.name))
      attrs[def.name] = TypeFor(op, def.name, dtype);
  }
  return attrs;
}

// The input for each of `shapes` shapes: a list input takes those that the others leave.
StatusOr<std::vector<const ArgDef*>> InputsFor(const OpDef& op, size_t shapes) {
  std::vector<const ArgDef*> inputs;
  const auto is_list = [](const ArgDef& arg) { return !arg.number_attr.empty() || !arg.type_list_attr.empty(); };
  const size_t lists = static_cast<size_t>(std::ranges::count_if(op.inputs, is_list));
  const size_t others = op.inputs.size() - lists;
  for (const ArgDef& arg : op.inputs) {
    const size_t copies = !is_list(arg) ? 1 : shapes > others ? (shapes - others) / lists : 0;
    inputs.insert(inputs.end(), copies, &arg);
  }
  if (inputs.size() == shapes) return inputs;
  std::vector<std::string> names;
  for (const ArgDef& arg : op.inputs) names.push_back(arg.name);
  return UsageError("op '{}' takes {} ({}), and --shape is given {} times; give one for each", op.name,
                    op.inputs.size() == 1 ? "1 input" : fmt::format("{} inputs", op.inputs.size()), Join(names, ", "),
                    shapes);
}

template <typename T>
Status ParseValues(std::string_view text, Tensor& tensor) {
  const std::vector<std::string> parts = Split(text.substr(1), ',');
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!ParseNumber(parts[i], tensor.flat<T>()[i]))
      return UsageError("--shape {} takes {} such as =1,0", text, std::is_integral_v<T> ? "integers" : "numbers");
  }
  return absl::OkStatus();
}

// "=1,0": a list of so many numbers.
StatusOr<Tensor> ConstantOf(DType type, std::string_view text) {
  Tensor tensor(type, Shape{static_cast<int64_t>(Split(text.substr(1), ',').size())});
  switch (type) {
    case DType::kInt32:
      RIVULET_RETURN_IF_ERROR(ParseValues<int32_t>(text, tensor));
      return tensor;
    case DType::kInt64:
      RIVULET_RETURN_IF_ERROR(ParseValues<int64_t>(text, tensor));
      return tensor;
    case DType::kFloat32:
      RIVULET_RETURN_IF_ERROR(ParseValues<float>(text, tensor));
      return tensor;
    case DType::kFloat64:
      RIVULET_RETURN_IF_ERROR(ParseValues<double>(text, tensor));
      return tensor;
    default:
      return UsageError("--shape {}: an input of type {} cannot be given as values; give its sizes, such as 64x784",
                        text, Name(type));
  }
}

// An input from sizes is fed, one from values is a constant, and one that the op requires as a variable is a variable.
StatusOr<Output> AddInput(const Scope& scope, DType type, DType dtype, const std::string& text, const std::string& name,
                          OpBenchGraph& bench, std::string* described) {
  if (text.starts_with('=')) {
    RIVULET_ASSIGN_OR_RETURN(Tensor values, ConstantOf(type, text));
    *described = text;
    return scope.Const(std::move(values), name);
  }
  RIVULET_ASSIGN_OR_RETURN(const Shape shape, ParseShape(text));
  if (type == DType::kResource) {
    const std::string variable = fmt::format("variable_{}", bench.variables.size());
    bench.variables.push_back({dtype, shape});
    *described = fmt::format("variable {}{}", Name(dtype), shape.ToString());
    return scope.Op("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}, {"shared_name", variable}}, name);
  }
  bench.fed.push_back(scope.Placeholder(name, type, shape));
  *described = fmt::format("{}{}", Name(type), shape.ToString());
  return bench.fed.back();
}

}  // namespace

StatusOr<OpBenchGraph> MakeOpBenchGraph(const OpBenchOptions& options) {
  StatusOr<const OpDef*> found = OpRegistry::Global().Get(options.op);
  if (!found.ok()) return AsUsageError(found.status());
  const OpDef& op = **found;
  const StatusOr<DType> dtype = DTypeFromName(options.dtype);
  if (!dtype.ok() || SizeOf(*dtype) == 0) return UsageError("--dtype '{}' is no type of numbers", options.dtype);
  RIVULET_ASSIGN_OR_RETURN(AttrMap attrs, AttrsOf(op, options, *dtype));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<const ArgDef*> inputs, InputsFor(op, options.shapes.size()));

  OpBenchGraph bench;
  const Scope scope(bench.graph);
  std::vector<Output> edges(inputs.size());
  std::vector<std::string> described(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgDef& arg = *inputs[i];
    DType type = arg.dtype;
    if (!arg.type_attr.empty()) {
      const auto given = attrs.find(arg.type_attr);
      type = given == attrs.end() ? TypeFor(op, arg.type_attr, *dtype) : std::get<DType>(given->second);
    } else if (!arg.type_list_attr.empty()) {
      type = *dtype;
    }
    const std::string name = fmt::format("input_{}", i);
    RIVULET_ASSIGN_OR_RETURN(edges[i], AddInput(scope, type, *dtype, options.shapes[i], name, bench, &described[i]));
  }
  RIVULET_RETURN_IF_ERROR(AsUsageError(scope.status()));
  StatusOr<Node*> node =
      bench.graph.AddNode({.name = "op", .op = op.name, .inputs = std::move(edges), .attrs = std::move(attrs)});
  if (!node.ok()) return AsUsageError(node.status());
  bench.node = *node;
  for (const TensorSpec& output : bench.node->outputs()) {
    if (output.dtype != DType::kResource && (!output.shape.known_rank() || !output.shape.CheckedElements().ok()))
      return UsageError(
          "the shape of {}'s output does not follow from these inputs; give the inputs that determine it as values, "
          "such as --shape =2,3",
          op.name);
  }
  bench.title = fmt::format("{} {}{}", op.name, Join(described, " "),
                            options.attrs.empty() ? "" : fmt::format(" ({})", Join(options.attrs, ", ")));
  return bench;
}

}  // namespace rivulet
