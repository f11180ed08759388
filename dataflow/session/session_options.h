// Conversion of TensorFlow's ConfigProto and RunOptions to this session's options. Each field is supported, or refused
// by name if its value is not supported. docs/reference/session_options.md is the table.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dataflow/session/session.h"
#include "engine/base/status.h"

namespace rivulet {

namespace proto {
class ConfigProto;
class RunOptions;
}  // namespace proto

// Support of one field of TensorFlow's options.
struct OptionRule {
  enum class Kind {
    kHonoured,  // `text` describes the effect, `test` names a test of it
    kRefused,   // `text` gives the reason
    kFields     // a message: its fields have separate rules
  };
  std::string_view field;  // "ConfigProto.Experimental.executor_type"
  Kind kind = Kind::kRefused;
  std::string_view text;
  std::string_view test = "";     // "Suite.Test"
  std::string_view allowed = "";  // for a refused field: a value without effect, besides the default
};
// All fields of ConfigProto, RunOptions and the messages in them.
std::span<const OptionRule> OptionRules();

// UNIMPLEMENTED: a refused field is set; INVALID_ARGUMENT: an invalid value. Both name the field. `shared_state`
// becomes the session's, unless the options request isolated state; `log` receives lines about placement
// (log_device_placement), which otherwise go to stderr. The session places its nodes, as TensorFlow's does.
StatusOr<SessionConfig> SessionConfigFrom(const proto::ConfigProto& options,
                                          std::shared_ptr<ResourceManager> shared_state = nullptr,
                                          std::function<void(const std::string& line)> log = nullptr);
StatusOr<RunOptions> RunOptionsFrom(const proto::RunOptions& options);

}  // namespace rivulet
