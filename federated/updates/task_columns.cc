#include "federated/updates/task_columns.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <bit>
#include <cmath>

namespace rivulet {
namespace {

// The value declared under `name`, if it is an integer in the countable range.
std::optional<int64_t> DeclaredCount(const Scalars& declared, const std::string& name) {
  const auto found = declared.find(name);
  if (found == declared.end()) return std::nullopt;
  const double value = found->second;
  return value >= 0 && value <= 0x1p53 && value == std::floor(value) ? std::optional(static_cast<int64_t>(value))
                                                                     : std::nullopt;
}

// Conversions for members of a site's columns: a real number, a count or a flag.
double AsReal(double value) { return value; }
double AsReal(int64_t value) { return static_cast<double>(value); }
double AsReal(bool value) { return value ? 1 : 0; }

template <typename Column>
using ValueOf =
    std::remove_reference_t<decltype(ValueIn(std::declval<TaskResult&>().*(std::declval<Column>().member)))>;

template <typename Each>
void ForEachSiteColumn(Each&& each) {
  ForEachTaskColumn([&](const auto& column) {
    using Value = ValueOf<decltype(column)>;
    if constexpr (std::is_arithmetic_v<Value>) {
      if (column.by == StatedBy::kSite) each(column);
    }
  });
}

}  // namespace

void ReadDeclared(const Scalars& declared, TaskResult& result) {
  ForEachTaskColumn([&](const auto& column) {
    if (column.by != StatedBy::kClient) return;
    auto& member = result.*(column.member);
    if constexpr (std::is_same_v<decltype(member), std::optional<int64_t>&>) {
      member = DeclaredCount(declared, column.name);
    } else if constexpr (std::is_same_v<decltype(member), std::optional<double>&>) {
      const auto found = declared.find(column.name);
      member = found == declared.end() || !std::isfinite(found->second) ? std::nullopt : std::optional(found->second);
    }
  });
}

void WriteSiteColumns(const TaskResult& result, google::protobuf::Message& message, int beside) {
  google::protobuf::UnknownFieldSet* const fields = message.GetReflection()->MutableUnknownFields(&message);
  ForEachSiteColumn([&](const auto& column) {
    const auto& member = result.*(column.member);
    if (column.field == beside || !IsKnown(member)) return;
    const auto value = ValueIn(member);
    if constexpr (std::is_same_v<decltype(value), const double>) {
      fields->AddFixed64(column.field, std::bit_cast<uint64_t>(value));
    } else {
      fields->AddVarint(column.field, static_cast<uint64_t>(value));
    }
  });
}

// If a field is repeated, the last one counts, as in protobuf.
Status ReadSiteColumns(const google::protobuf::Message& message, const std::string& whose, TaskResult& result) {
  using google::protobuf::UnknownField;
  const google::protobuf::UnknownFieldSet& fields = message.GetReflection()->GetUnknownFields(message);
  Status status;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    ForEachSiteColumn([&](const auto& column) {
      using Value = ValueOf<decltype(column)>;
      constexpr bool kReal = std::is_same_v<Value, double>;
      if (field.number() != column.field ||
          field.type() != (kReal ? UnknownField::TYPE_FIXED64 : UnknownField::TYPE_VARINT)) {
        return;
      }
      Value& value = ValueIn(result.*(column.member));
      if constexpr (kReal) {
        value = std::bit_cast<double>(field.fixed64());
      } else {
        value = static_cast<Value>(field.varint());
      }
      if (!std::isfinite(AsReal(value)) || AsReal(value) < 0) {
        status = InvalidArgument("{} has {} = {}, which is impossible", whose, column.name, AsReal(value));
      }
    });
  }
  return status;
}

}  // namespace rivulet
