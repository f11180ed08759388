#include "cli/http_options.h"

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

}  // namespace rivulet
