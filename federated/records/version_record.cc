#include "federated/records/version_record.h"

#include <cmath>
#include <utility>

#include "engine/base/json.h"

namespace rivulet::records {
namespace {

constexpr char kModelDigest[] = "rivuletModel";

Json HexOrNull(const std::optional<Digest>& digest) { return digest ? Json(digest->Hex()) : Json(nullptr); }

std::string SubjectName(const VersionRecord& record) { return fmt::format("{}/{}", record.run, record.version); }

Json PrivacyJson(const RecordedPrivacy& privacy) {
  Json parameters = Json::Object();
  for (const auto& [name, value] : privacy.parameters) parameters[name] = value;
  return {{"mechanism", privacy.mechanism},
          {"parameters", std::move(parameters)},
          {"epsilon", privacy.epsilon ? Json(*privacy.epsilon) : Json(nullptr)},
          {"delta", privacy.delta},
          {"unit", privacy.unit},
          {"relation", privacy.relation},
          {"noiseKey", HexOrNull(privacy.noise_key)}};
}

// Reads members and remembers the first that is wrong; what it returns after that has no meaning.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  std::string Text(const char* name) {
    const Json& value = object_.At(name);
    if (!value.IsText()) Refuse(name, "text");
    return value.text();
  }
  int64_t Count(const char* name) {
    const Json& value = object_.At(name);
    if (!value.IsInteger() || value.integer() < 0) Refuse(name, "a whole number from 0 on");
    return value.integer();
  }
  double Number(const char* name) {
    const Json& value = object_.At(name);
    if (!value.IsNumber() || !std::isfinite(value.number())) Refuse(name, "a number");
    return value.number();
  }
  std::optional<double> OptionalNumber(const char* name) {
    if (object_.Contains(name) && object_.At(name).IsNull()) return std::nullopt;
    return Number(name);
  }
  bool Truth(const char* name) {
    const Json& value = object_.At(name);
    if (value.Dump() != "true" && value.Dump() != "false") Refuse(name, "true or false");
    return value.IsTrue();
  }
  Digest Hex(const char* name) {
    const StatusOr<Digest> digest = Digest::FromHex(object_.At(name).text());
    if (!digest.ok()) Refuse(name, "64 hexadecimal digits");
    return digest.value_or(Digest());
  }
  std::optional<Digest> OptionalHex(const char* name) {
    if (object_.Contains(name) && object_.At(name).IsNull()) return std::nullopt;
    return Hex(name);
  }
  void Refuse(const char* name, std::string_view wanted) {
    if (status_.ok()) status_ = InvalidArgument("a record's \"{}\" must be {}", name, wanted);
  }
  const Status& status() const { return status_; }

 private:
  const Json& object_;
  Status status_;
};

StatusOr<RecordedPrivacy> ReadPrivacy(const Json& json) {
  Fields fields(json);
  RecordedPrivacy privacy = {.mechanism = fields.Text("mechanism"),
                             .epsilon = fields.OptionalNumber("epsilon"),
                             .delta = fields.Number("delta"),
                             .unit = fields.Text("unit"),
                             .relation = fields.Text("relation"),
                             .noise_key = fields.OptionalHex("noiseKey")};
  const Json& parameters = json.At("parameters");
  if (!parameters.IsObject()) fields.Refuse("parameters", "an object");
  for (const auto& [name, value] : parameters.members()) {
    if (!value.IsNumber()) fields.Refuse("parameters", "an object of numbers");
    privacy.parameters[name] = value.number();
  }
  RIVULET_RETURN_IF_ERROR(fields.status());
  return privacy;
}

}  // namespace

std::string Write(const VersionRecord& record) {
  Json predicate = {{"run", record.run},
                    {"version", record.version},
                    {"previous", HexOrNull(record.previous)},
                    {"earlier", record.earlier},
                    {"earlierRoot", record.earlier_root.Hex()},
                    {"madeMs", record.made_ms},
                    {"program", record.program},
                    {"plan", record.plan.Hex()},
                    {"configuration", record.configuration.Hex()},
                    {"base", HexOrNull(record.base)},
                    {"updates", record.updates},
                    {"updatesRoot", record.updates_root.Hex()},
                    {"hasReceipts", record.has_receipts},
                    {"privacy", record.privacy ? PrivacyJson(*record.privacy) : Json(nullptr)}};
  Json subject = Json::Array();
  subject.Append({{"name", SubjectName(record)}, {"digest", Json{{kModelDigest, record.model.Hex()}}}});
  const Json statement = {{"_type", kStatementType},
                          {"subject", std::move(subject)},
                          {"predicateType", kPredicateType},
                          {"predicate", std::move(predicate)}};
  return statement.Dump();
}

Digest DigestOf(std::string_view text) { return Sha256Of(text); }

StatusOr<VersionRecord> ReadVersionRecord(std::string_view text) {
  const StatusOr<Json> parsed = Json::Parse(text);
  if (!parsed.ok()) return Annotate(parsed.status(), "a version's record");
  const Json& statement = *parsed;
  if (statement.At("_type").text() != kStatementType || statement.At("predicateType").text() != kPredicateType) {
    return InvalidArgument("a version's record must be of the types {} and {}", kStatementType, kPredicateType);
  }
  const Json& subjects = statement.At("subject");
  if (subjects.size() != 1 || !subjects.IsArray()) return InvalidArgument("a version's record has one subject");
  Fields subject(subjects.elements()[0].At("digest"));
  const Json& predicate = statement.At("predicate");
  Fields fields(predicate);
  VersionRecord record = {.run = fields.Text("run"),
                          .version = fields.Count("version"),
                          .previous = fields.OptionalHex("previous"),
                          .earlier = fields.Count("earlier"),
                          .earlier_root = fields.Hex("earlierRoot"),
                          .made_ms = fields.Count("madeMs"),
                          .program = fields.Text("program"),
                          .plan = fields.Hex("plan"),
                          .configuration = fields.Hex("configuration"),
                          .base = fields.OptionalHex("base"),
                          .model = subject.Hex(kModelDigest),
                          .updates = fields.Count("updates"),
                          .updates_root = fields.Hex("updatesRoot"),
                          .has_receipts = fields.Truth("hasReceipts")};
  RIVULET_RETURN_IF_ERROR(subject.status());
  if (!predicate.Contains("privacy")) fields.Refuse("privacy", "an object or null");
  RIVULET_RETURN_IF_ERROR(fields.status());
  if (!predicate.At("privacy").IsNull()) {
    RIVULET_ASSIGN_OR_RETURN(record.privacy, ReadPrivacy(predicate.At("privacy")));
  }
  const bool first = record.earlier == 0;
  if (first != !record.previous || first != !record.base || (record.version == 0 && !first)) {
    return InvalidArgument("a record of version {} after {} others {} have \"previous\" and \"base\"", record.version,
                           record.earlier, first || record.version == 0 ? "must not" : "must");
  }
  // One text a record: else a changed one could have the digest of none and still be read.
  if (Write(record) != text) {
    return InvalidArgument("the record of version {} of run '{}' has fields or characters that no record has",
                           record.version, record.run);
  }
  return record;
}

std::optional<ChainBreak> RecordChain::BreakOf(const VersionRecord& next) const {
  const auto hex = [](const std::optional<Digest>& one) { return one ? one->Hex() : std::string("null"); };
  const auto text = [](int64_t number) { return fmt::format("{}", number); };
  if (last_) {
    const VersionRecord& last = *last_;
    if (next.run != last.run) return ChainBreak{"run", last.run, next.run};
    if (next.version != last.version + 1) return ChainBreak{"version", text(last.version + 1), text(next.version)};
    if (next.previous != head_) return ChainBreak{"previous", head_.Hex(), hex(next.previous)};
    if (next.base != last.model) return ChainBreak{"base", last.model.Hex(), hex(next.base)};
    if (next.configuration != last.configuration) {
      return ChainBreak{"configuration", last.configuration.Hex(), next.configuration.Hex()};
    }
  } else if (next.previous) {
    return ChainBreak{"previous", "null", hex(next.previous)};
  }
  if (next.earlier != tree_.size()) return ChainBreak{"earlier", text(tree_.size()), text(next.earlier)};
  if (next.earlier_root != tree_.root()) {
    return ChainBreak{"earlierRoot", tree_.root().Hex(), next.earlier_root.Hex()};
  }
  return std::nullopt;
}

Status RecordChain::Add(const VersionRecord& next, const Digest& digest) {
  if (const auto broken = BreakOf(next)) {
    return DataLoss("the records of run '{}' break at version {}: its \"{}\" is {}, and {} was expected",
                    last_ ? last_->run : next.run, next.version, broken->field, broken->found, broken->expected);
  }
  last_ = next;
  head_ = digest;
  tree_.Add(LeafOf(digest));
  return absl::OkStatus();
}

void RecordChain::Continue(VersionRecord& next) const {
  next.earlier = tree_.size();
  next.earlier_root = tree_.root();
  if (!last_) return;
  next.version = last_->version + 1;
  next.previous = head_;
  next.base = last_->model;
}

}  // namespace rivulet::records
