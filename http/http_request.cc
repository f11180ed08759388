#include <charconv>

#include "http/http_server.h"

namespace rivulet {

std::string HttpRequest::Parameter(const std::string& name) const {
  const auto found = parameters.find(name);
  return found == parameters.end() ? "" : found->second;
}

int64_t HttpRequest::Number(const std::string& name) const {
  const std::string text = Parameter(name);
  int64_t number = 0;
  if (text.size() > 9 || text.find_first_not_of("0123456789") != text.npos) return 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string HttpCallRequest::Field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

}  // namespace rivulet
