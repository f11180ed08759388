// Attributes of a node: inference from its inputs, defaults, checks.
#include <algorithm>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/graph/inference.h"

namespace rivulet {
namespace {

using Kind = AttrDef::Kind;

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kBool:
      return "bool";
    case Kind::kString:
      return "string";
    case Kind::kType:
      return "type";
    case Kind::kShape:
      return "shape";
    case Kind::kTensor:
      return "tensor";
    case Kind::kFunc:
      return "func";
    case Kind::kIntList:
      return "list(int)";
    case Kind::kFloatList:
      return "list(float)";
    case Kind::kBoolList:
      return "list(bool)";
    case Kind::kStringList:
      return "list(string)";
    case Kind::kTypeList:
      return "list(type)";
    case Kind::kShapeList:
      return "list(shape)";
    case Kind::kFuncList:
      return "list(func)";
  }
  return "?";
}

Kind KindOf(const AttrValue& value) {
  // In order of AttrValue's alternatives.
  static constexpr Kind kKinds[] = {Kind::kInt,      Kind::kFloat,     Kind::kBool,     Kind::kString,
                                    Kind::kType,     Kind::kShape,     Kind::kTensor,   Kind::kFunc,
                                    Kind::kIntList,  Kind::kFloatList, Kind::kBoolList, Kind::kStringList,
                                    Kind::kTypeList, Kind::kShapeList, Kind::kFuncList};
  static_assert(std::size(kKinds) == std::variant_size_v<AttrValue>);
  return kKinds[value.index()];
}

std::string TypeNames(const std::vector<DType>& types) {
  std::string names;
  for (DType dtype : types) names += fmt::format("{}{}", names.empty() ? "" : ", ", Name(dtype));
  return names;
}

size_t ListLength(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> size_t {
        if constexpr (requires {
                        v.front();
                        v.size();
                      }) {
          return v.size();
        } else {
          return 0;
        }
      },
      value);
}

Status CheckType(const AttrDef& def, DType dtype, std::string_view where) {
  if (dtype == DType::kInvalid) return InvalidArgument("{}: attribute '{}' is no valid data type", where, def.name);
  if (def.allowed_types.empty() || std::ranges::find(def.allowed_types, dtype) != def.allowed_types.end())
    return absl::OkStatus();
  return InvalidArgument("{}: attribute '{}' is {}, but the op takes {}", where, def.name, Name(dtype),
                         TypeNames(def.allowed_types));
}

Status CheckString(const AttrDef& def, const std::string& text, std::string_view where) {
  if (def.allowed_strings.empty() || std::ranges::find(def.allowed_strings, text) != def.allowed_strings.end())
    return absl::OkStatus();
  return InvalidArgument("{}: attribute '{}' is '{}', but the op takes {}.{}", where, def.name, text,
                         fmt::format("'{}'", Join(def.allowed_strings, "', '")), DidYouMean(text, def.allowed_strings));
}

Status CheckAttribute(const AttrDef& def, const AttrValue& value, std::string_view where) {
  if (KindOf(value) != def.kind) {
    return InvalidArgument("{}: attribute '{}' must be {}, but is {}", where, def.name, KindName(def.kind),
                           KindName(KindOf(value)));
  }
  if (def.kind == Kind::kInt && def.minimum && std::get<int64_t>(value) < *def.minimum)
    return InvalidArgument("{}: attribute '{}' is {}, but must be at least {}", where, def.name,
                           std::get<int64_t>(value), *def.minimum);
  if (def.kind >= Kind::kIntList && def.minimum && static_cast<int64_t>(ListLength(value)) < *def.minimum)
    return InvalidArgument("{}: attribute '{}' has {} elements, but needs at least {}", where, def.name,
                           ListLength(value), *def.minimum);
  if (def.kind == Kind::kType) return CheckType(def, std::get<DType>(value), where);
  if (def.kind == Kind::kString) return CheckString(def, std::get<std::string>(value), where);
  if (def.kind == Kind::kTypeList)
    for (DType dtype : std::get<std::vector<DType>>(value)) RIVULET_RETURN_IF_ERROR(CheckType(def, dtype, where));
  if (def.kind == Kind::kStringList)
    for (const std::string& text : std::get<std::vector<std::string>>(value))
      RIVULET_RETURN_IF_ERROR(CheckString(def, text, where));
  return absl::OkStatus();
}

template <typename T>
const T* Find(const AttrMap& attrs, const std::string& name) {
  const auto found = attrs.find(name);
  return found == attrs.end() ? nullptr : std::get_if<T>(&found->second);
}

// Computes the length of each argument for `total` inputs, and sets number attributes found on the way. A node has a
// flat list of inputs, and an op may have several lists. One unknown length follows from the others and the total; two
// do not, and a guess could build another node than intended.
StatusOr<std::vector<size_t>> ArgumentLengths(const OpDef& op, std::string_view where, size_t total, AttrMap& attrs) {
  std::vector<size_t> lengths(op.inputs.size(), 1);
  size_t known = 0;
  size_t open_arguments = 0;
  std::string open;  // the single attribute whose length depends on the inputs
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ArgDef& arg = op.inputs[i];
    const std::string& name = arg.number_attr.empty() ? arg.type_list_attr : arg.number_attr;
    if (name.empty()) {
      ++known;
    } else if (const int64_t* number = Find<int64_t>(attrs, name); number != nullptr) {
      if (*number < 0 || *number > static_cast<int64_t>(total))
        return InvalidArgument("{}: attribute '{}' is {}, but the node has {} inputs", where, name, *number, total);
      known += lengths[i] = static_cast<size_t>(*number);
    } else if (const auto* types = Find<std::vector<DType>>(attrs, name); types != nullptr) {
      known += lengths[i] = types->size();
    } else if (open.empty() || open == name) {
      open = name;
      ++open_arguments;
    } else {
      return InvalidArgument("{}: attributes '{}' and '{}' do not follow from the inputs; state one", where, open,
                             name);
    }
  }
  if (open_arguments > 0 && known <= total && (total - known) % open_arguments == 0) {
    const size_t each = (total - known) / open_arguments;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i].number_attr == open || op.inputs[i].type_list_attr == open) lengths[i] = each;
    if (op.FindAttr(open)->kind == Kind::kInt) attrs[open] = static_cast<int64_t>(each);
    known = total;
  }
  if (known != total || (open_arguments > 0 && known > total)) {
    std::string signature;
    for (const ArgDef& arg : op.inputs) signature += (signature.empty() ? "" : ", ") + arg.name;
    return InvalidArgument("{}: has {} input{}, but takes {} ({})", where, total, total == 1 ? "" : "s", known,
                           signature.empty() ? "none" : signature);
  }
  return lengths;
}

}  // namespace

// Attributes that follow from the inputs may be omitted: the types of most ops follow from their inputs. If stated,
// they must agree, because the author may have expected other inputs.
Status ResolveAttributes(const OpDef& op, std::string_view where, std::span<const DType> input_types, AttrMap& attrs) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<size_t> lengths, ArgumentLengths(op, where, input_types.size(), attrs));
  size_t next = 0;
  for (size_t a = 0; a < op.inputs.size(); ++a) {
    const ArgDef& arg = op.inputs[a];
    const auto* listed = arg.type_list_attr.empty() ? nullptr : Find<std::vector<DType>>(attrs, arg.type_list_attr);
    const std::vector<DType> stated = listed != nullptr ? *listed : std::vector<DType>();
    std::vector<DType> given;
    for (size_t i = 0; i < lengths[a]; ++i, ++next) {
      const DType dtype = input_types[next];
      given.push_back(dtype);
      DType wanted = arg.dtype;
      if (listed != nullptr) wanted = stated[i];
      if (!arg.type_attr.empty()) {
        const DType* bound = Find<DType>(attrs, arg.type_attr);
        if (bound == nullptr && attrs.find(arg.type_attr) == attrs.end()) attrs[arg.type_attr] = dtype;
        wanted = bound != nullptr ? *bound : dtype;
      }
      if (wanted != DType::kInvalid && wanted != dtype)
        return InvalidArgument("{}: input {} ('{}') is {}, but must be {}{}", where, next, arg.name, Name(dtype),
                               Name(wanted),
                               arg.type_attr.empty() ? "" : fmt::format(" as in attribute '{}'", arg.type_attr));
    }
    if (!arg.type_list_attr.empty() && listed == nullptr && attrs.find(arg.type_list_attr) == attrs.end())
      attrs[arg.type_list_attr] = given;
  }
  for (const AttrDef& def : op.attrs) {
    const auto found = attrs.find(def.name);
    if (found != attrs.end()) {
      RIVULET_RETURN_IF_ERROR(CheckAttribute(def, found->second, where));
    } else if (def.default_value) {
      attrs.emplace(def.name, *def.default_value);
    } else {
      return InvalidArgument("{}: lacks the attribute '{}' ({})", where, def.name, KindName(def.kind));
    }
  }
  // Names with "_" are free annotations; all others must be the op's, because a misspelt attribute would silently keep
  // its default.
  for (const auto& [name, value] : attrs) {
    if (name.starts_with('_') || op.FindAttr(name) != nullptr) continue;
    std::vector<std::string> known;
    for (const AttrDef& def : op.attrs) known.push_back(def.name);
    return InvalidArgument("{}: has no attribute '{}'.{}", where, name, DidYouMean(name, known));
  }
  return absl::OkStatus();
}

std::vector<DType> OutputTypes(const OpDef& op, const AttrMap& attrs) {
  std::vector<DType> types;
  for (const ArgDef& arg : op.outputs) {
    if (!arg.type_list_attr.empty()) {
      const auto& list = std::get<std::vector<DType>>(attrs.at(arg.type_list_attr));
      types.insert(types.end(), list.begin(), list.end());
      continue;
    }
    const DType dtype = arg.type_attr.empty() ? arg.dtype : std::get<DType>(attrs.at(arg.type_attr));
    const int64_t copies = arg.number_attr.empty() ? 1 : std::get<int64_t>(attrs.at(arg.number_attr));
    types.insert(types.end(), static_cast<size_t>(std::max<int64_t>(copies, 0)), dtype);
  }
  return types;
}

std::string DescribeNode(std::string_view op, std::string_view name, std::string_view source_line) {
  return source_line.empty() ? fmt::format("{} '{}'", op, name) : fmt::format("{} '{}' ({})", op, name, source_line);
}

std::string DescribeNode(const Node& node) { return DescribeNode(node.type(), node.name(), node.source_line()); }

}  // namespace rivulet
