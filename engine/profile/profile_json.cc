#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/profile/profile.h"

namespace rivulet {
namespace {

using Json = nlohmann::json;

Status Wrong(std::string_view what) { return InvalidArgument("this is no profile: '{}' is missing or wrong", what); }

Status Get(const Json& object, const char* key, std::string& value) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return Wrong(key);
  value = found->get<std::string>();
  return absl::OkStatus();
}
Status Get(const Json& object, const char* key, double& value) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return Wrong(key);
  value = found->get<double>();
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
  if (!json.is_object()) return Wrong("roofline");
  int64_t threads = 0;
  RIVULET_RETURN_IF_ERROR(Get(json, "threads", threads));
  roofline.threads = static_cast<int>(std::min<int64_t>(threads, 1 << 20));
  RIVULET_RETURN_IF_ERROR(Get(json, "flops_per_second", roofline.flops_per_second));
  const auto bandwidths = json.find("bandwidths");
  if (bandwidths == json.end() || !bandwidths->is_array() || bandwidths->empty()) return Wrong("bandwidths");
  for (const Json& entry : *bandwidths) {
    if (!entry.is_object()) return Wrong("bandwidths");
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

std::string ProfileToJson(const Profile& profile) {
  Json bandwidths = Json::array(), instructions = Json::array();
  for (const Roofline::Bandwidth& bandwidth : profile.roofline.bandwidths)
    bandwidths.push_back({{"footprint", bandwidth.footprint}, {"bytes_per_second", bandwidth.bytes_per_second}});
  for (const InstructionProfile& row : profile.instructions)
    instructions.push_back({{"node", row.node},
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
  const Json json = {{"title", profile.title},
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
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StatusOr<Profile> ProfileFromJson(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidArgument("this is no profile: not a JSON object");
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
  const auto roofline = json.find("roofline");
  if (roofline == json.end()) return Wrong("roofline");
  RIVULET_ASSIGN_OR_RETURN(profile.roofline, RooflineFrom(*roofline));
  const auto instructions = json.find("instructions");
  if (instructions == json.end() || !instructions->is_array()) return Wrong("instructions");
  for (const Json& entry : *instructions) {
    if (!entry.is_object()) return Wrong("instructions");
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
