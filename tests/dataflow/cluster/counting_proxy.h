// A proxy of one TCP address that counts the bytes it forwards.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// For a local port. Each connection has a thread per direction; all end with the proxy.
class CountingProxy {
 public:
  explicit CountingProxy(int target_port) : target_port_(target_port), listener_(Socket()) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { Accept(); });
  }
  ~CountingProxy() {
    shutdown(listener_, SHUT_RDWR);
    accepting_.join();  // no connection comes after it
    for (const int fd : sockets_) shutdown(fd, SHUT_RDWR);
    for (std::thread& pump : pumps_) pump.join();
    for (const int fd : sockets_) close(fd);
    close(listener_);
  }
  CountingProxy(const CountingProxy&) = delete;
  CountingProxy& operator=(const CountingProxy&) = delete;

  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }
  size_t bytes() const { return bytes_; }  // in both directions

 private:
  static int Socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }
  void Accept() {
    while (true) {
      const int from = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (from < 0) return;
      const int to = Socket();
      sockaddr_in address = Loopback(target_port_);
      sockets_.insert(sockets_.end(), {from, to});
      if (connect(to, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        shutdown(from, SHUT_RDWR);
        continue;
      }
      pumps_.emplace_back([this, from, to] { Pump(from, to); });
      pumps_.emplace_back([this, from, to] { Pump(to, from); });
    }
  }
  void Pump(int from, int to) {
    std::vector<char> buffer(64 << 10);
    while (true) {
      const ssize_t got = read(from, buffer.data(), buffer.size());
      if (got <= 0) break;
      bytes_ += static_cast<size_t>(got);
      for (ssize_t sent = 0; sent < got;) {
        const ssize_t wrote = send(to, buffer.data() + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
        if (wrote <= 0) break;
        sent += wrote;
      }
    }
    shutdown(to, SHUT_RDWR);
  }

  const int target_port_, listener_;
  int port_ = 0;
  std::atomic<size_t> bytes_{0};
  std::vector<int> sockets_;        // of the accepting thread, and of the destructor after it
  std::vector<std::thread> pumps_;  // likewise
  std::thread accepting_;
};

}  // namespace rivulet::testing
