#include <cmath>

#include "engine/base/json.h"
#include "engine/profile/profile.h"

namespace rivulet {
namespace {

Status Wrong(std::string_view what) { return InvalidArgument("this is no profile: '{}' is missing or wrong", what); }

Status Get(const Json& object, const char* key, std::string& value) {
  const Json* const found = object.Find(key);
  if (found == nullptr || !found->IsText()) return Wrong(key);
  value = found->text();
  return absl::OkStatus();
}
Status Get(const Json& object, const char* key, double& value) {
  const Json* const found = object.Find(key);
  if (found == nullptr || !found->IsNumber()) return Wrong(key);
  value = found->number();
  return std::isfinite(value) && value >= 0 ? absl::OkStatus() : Wrong(key);
}
Status Get(const Json& object, const char* key, int64_t& value) {
  double number = 0;
  RIVULET_RETURN_IF_ERROR(Get(object, key, number));
  if (number > 0x1p53 || number != std::floor(number)) return Wrong(key);
  value = static_cast<int64_t>(number);
  return absl::OkStatus();
}

StatusOr<Roofline> RooflineFrom(const Json& json) {
  Roofline roofline;
  if (!json.IsObject()) return Wrong("roofline");
  int64_t threads = 0;
  RIVULET_RETURN_IF_ERROR(Get(json, "threads", threads));
  roofline.threads = static_cast<int>(std::min<int64_t>(threads, 1 << 20));
  RIVULET_RETURN_IF_ERROR(Get(json, "flops_per_second", roofline.flops_per_second));
  const Json* const bandwidths = json.Find("bandwidths");
  if (bandwidths == nullptr || bandwidths->elements().empty()) return Wrong("bandwidths");
  for (const Json& entry : bandwidths->elements()) {
    if (!entry.IsObject()) return Wrong("bandwidths");
    Roofline::Bandwidth bandwidth;
    RIVULET_RETURN_IF_ERROR(Get(entry, "footprint", bandwidth.footprint));
    RIVULET_RETURN_IF_ERROR(Get(entry, "bytes_per_second", bandwidth.bytes_per_second));
    const bool grows = roofline.bandwidths.empty() || bandwidth.footprint > roofline.bandwidths.back().footprint;
    if (bandwidth.footprint <= 0 || bandwidth.bytes_per_second <= 0 || !grows) return Wrong("bandwidths");
    roofline.bandwidths.push_back(bandwidth);
  }
  if (roofline.flops_per_second <= 0) return Wrong("flops_per_second");
  return roofline;
}

}  // namespace

Json ProfileJson(const Profile& profile) {
  Json bandwidths = Json::Array(), instructions = Json::Array();
  for (const Roofline::Bandwidth& bandwidth : profile.roofline.bandwidths)
    bandwidths.Append({{"footprint", bandwidth.footprint}, {"bytes_per_second", bandwidth.bytes_per_second}});
  for (const InstructionProfile& row : profile.instructions)
    instructions.Append({{"node", row.node},
                         {"op", row.op},
                         {"layer", row.layer},
                         {"implementation", row.implementation},
                         {"kernel", row.kernel},
                         {"shapes", row.shapes},
                         {"built_at", row.source_line},
                         {"calls", row.calls},
                         {"seconds", row.seconds},
                         {"flops", row.flops},
                         {"bytes", row.bytes},
                         {"live_bytes", row.live_bytes}});
  return {{"title", profile.title},
          {"steps", profile.steps},
          {"threads", profile.threads},
          {"step_seconds", profile.step_seconds},
          {"run_seconds", profile.run_seconds},
          {"arena_bytes", profile.arena_bytes},
          {"dropped", profile.dropped},
          {"roofline",
           {{"threads", profile.roofline.threads},
            {"flops_per_second", profile.roofline.flops_per_second},
            {"bandwidths", bandwidths}}},
          {"instructions", instructions}};
}

std::string ProfileToJson(const Profile& profile) { return ProfileJson(profile).Dump(); }

StatusOr<Profile> ProfileFromJson(std::string_view text) {
  const StatusOr<Json> read = Json::Parse(text);
  if (!read.ok() || !read->IsObject()) return InvalidArgument("this is no profile: not a JSON object");
  const Json& json = *read;
  Profile profile;
  int64_t threads = 0;
  RIVULET_RETURN_IF_ERROR(Get(json, "title", profile.title));
  RIVULET_RETURN_IF_ERROR(Get(json, "steps", profile.steps));
  RIVULET_RETURN_IF_ERROR(Get(json, "threads", threads));
  profile.threads = static_cast<int>(std::min<int64_t>(threads, 1 << 20));
  RIVULET_RETURN_IF_ERROR(Get(json, "step_seconds", profile.step_seconds));
  RIVULET_RETURN_IF_ERROR(Get(json, "run_seconds", profile.run_seconds));
  RIVULET_RETURN_IF_ERROR(Get(json, "arena_bytes", profile.arena_bytes));
  RIVULET_RETURN_IF_ERROR(Get(json, "dropped", profile.dropped));
  const Json* const roofline = json.Find("roofline");
  if (roofline == nullptr) return Wrong("roofline");
  RIVULET_ASSIGN_OR_RETURN(profile.roofline, RooflineFrom(*roofline));
  const Json* const instructions = json.Find("instructions");
  if (instructions == nullptr || !instructions->IsArray()) return Wrong("instructions");
  for (const Json& entry : instructions->elements()) {
    if (!entry.IsObject()) return Wrong("instructions");
    InstructionProfile& row = profile.instructions.emplace_back();
    for (const auto& [key, text_field] : {std::pair{"node", &row.node},
                                          {"op", &row.op},
                                          {"layer", &row.layer},
                                          {"implementation", &row.implementation},
                                          {"kernel", &row.kernel},
                                          {"shapes", &row.shapes},
                                          {"built_at", &row.source_line}})
      RIVULET_RETURN_IF_ERROR(Get(entry, key, *text_field));
    RIVULET_RETURN_IF_ERROR(Get(entry, "calls", row.calls));
    RIVULET_RETURN_IF_ERROR(Get(entry, "seconds", row.seconds));
    RIVULET_RETURN_IF_ERROR(Get(entry, "flops", row.flops));
    RIVULET_RETURN_IF_ERROR(Get(entry, "bytes", row.bytes));
    RIVULET_RETURN_IF_ERROR(Get(entry, "live_bytes", row.live_bytes));
  }
  return profile;
}

}  // namespace rivulet
