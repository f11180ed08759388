#include <charconv>

#include "cli/http/http_server.h"
#include "cli/shell_quote.h"

namespace rivulet {

void AddHttpOptions(Command& command, HttpOptions* options, const std::string& what) {
  if (!HttpServer::IsBuilt()) return;
  command
      .Option("--http", "HOST:PORT", &options->address,
              what + (options->address.empty() ? ", port 0 being any" : fmt::format(" [{}]", options->address)))
      .Option("--http-token", "FILE", &options->token_file, "only for who gives the token that stands in this file")
      .Option("--http-tls", "DIR", &options->tls,
              "by TLS, with the certificate of this folder of `rivulet ca kit coordinator/HOST`; needed where HOST is "
              "not this machine. Without --http-token operators' certificates open it");
}

std::string ShellArguments(const HttpOptions& options) {
  std::string text;
  if (!options.address.empty()) text += " --http " + ShellQuote(options.address);
  if (!options.token_file.empty()) text += " --http-token " + ShellQuote(options.token_file);
  if (!options.tls.empty()) text += " --http-tls " + ShellQuote(options.tls);
  return text;
}

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

}  // namespace rivulet
