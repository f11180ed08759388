#include "tests/dataflow/session/options_page.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <set>
#include <vector>

#include "dataflow/session/session_options.h"
#include "proto/graph/config.pb.h"

namespace rivulet::testing {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr std::string_view kPackage = "rivulet.proto.";

// Of "GPUOptions.allow_growth", without the package; null: it has none.
const OptionRule* RuleOf(const FieldDescriptor& field) {
  const std::string name = field.full_name().substr(kPackage.size());
  const auto rule = std::ranges::find(OptionRules(), name, &OptionRule::field);
  return rule == OptionRules().end() ? nullptr : &*rule;
}

std::string TypeText(const FieldDescriptor& field) {
  std::string type = field.message_type() != nullptr ? field.message_type()->full_name()
                     : field.enum_type() != nullptr  ? field.enum_type()->full_name()
                                                     : std::string(field.type_name());
  if (type.starts_with(kPackage)) type = type.substr(kPackage.size());
  if (field.is_map())
    return fmt::format("map<{}, {}>", field.message_type()->field(0)->type_name(),
                       field.message_type()->field(1)->type_name());
  return field.is_repeated() ? "repeated " + type : type;
}

void AppendTable(const Descriptor& message, std::set<const Descriptor*>& done, std::string& text) {
  if (!done.insert(&message).second) return;
  text += fmt::format("\n## {}\n\n| field | type | here |\n| --- | --- | --- |\n",
                      message.full_name().substr(kPackage.size()));
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < message.field_count(); ++i) fields.push_back(message.field(i));
  std::sort(fields.begin(), fields.end(), [](const auto* a, const auto* b) { return a->number() < b->number(); });
  for (const FieldDescriptor* field : fields) {
    const OptionRule* rule = RuleOf(*field);
    std::string here = "**no rule**";
    if (rule != nullptr && rule->kind == OptionRule::Kind::kFields) {
      const std::string type = field->message_type()->full_name().substr(kPackage.size());
      here = fmt::format("by its fields: see {}", type);
    } else if (rule != nullptr && rule->kind == OptionRule::Kind::kHonoured) {
      here = fmt::format("**honoured**: {} (`{}`)", rule->text, rule->test);
    } else if (rule != nullptr) {
      here = fmt::format("refused: {}", rule->text);
      if (!rule->allowed.empty()) here += fmt::format(" ({} may be written)", rule->allowed);
    }
    text += fmt::format("| `{}` = {} | {} | {} |\n", field->name(), field->number(), TypeText(*field), here);
  }
  for (const FieldDescriptor* field : fields) {
    const OptionRule* rule = RuleOf(*field);
    if (rule != nullptr && rule->kind == OptionRule::Kind::kFields) AppendTable(*field->message_type(), done, text);
  }
}

}  // namespace

std::string OptionsPage() {
  size_t honoured = 0, refused = 0;
  for (const OptionRule& rule : OptionRules()) {
    honoured += rule.kind == OptionRule::Kind::kHonoured;
    refused += rule.kind == OptionRule::Kind::kRefused;
  }
  std::string text = fmt::format(
      "# Session options\n\n"
      "TensorFlow's `ConfigProto` and `RunOptions`, field by field: what each does in a session of Rivulet, and the "
      "test that\n"
      "sees it; or why it is refused. A refused field that is left at its default passes; one that is set ends\n"
      "`SessionConfigFrom` or `RunOptionsFrom` with an error that names it. {} fields are honoured, {} refused.\n\n"
      "A test writes this page from the messages and from `dataflow/session/option_rules.cc`\n"
      "(`RIVULET_UPDATE_DOCS=1`), and fails where a field has no rule or a test does not exist.\n",
      honoured, refused);
  std::set<const Descriptor*> done;
  AppendTable(*proto::ConfigProto::descriptor(), done, text);
  AppendTable(*proto::RunOptions::descriptor(), done, text);
  return text;
}

}  // namespace rivulet::testing
