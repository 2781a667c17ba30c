// Lines of the source from addresses of code, by binutils' addr2line.

#include <elf.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>

#include "ringrad/sim/racecheck/access_check.h"

extern "C" const Elf64_Ehdr __executable_start;  // by the linker

namespace ringrad::sim {
namespace {

std::string program() {
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return {path.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

// The address as the program's file numbers it: from 0 on, unless the program has a fixed address.
std::uint64_t address_in_file(std::uint32_t code) {
  const auto begin = reinterpret_cast<std::uint64_t>(&__executable_start);
  // `code` is the address of the next instruction.
  return code - 1 + (__executable_start.e_type == ET_DYN ? 0 : begin);
}

std::string output_of(const std::string& command) {
  const auto close = [](FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  std::string output;
  for (int c; pipe && (c = std::fgetc(pipe.get())) != EOF;) output += static_cast<char>(c);
  return output;
}

}  // namespace

std::string source_line(std::uint32_t code) {
  std::array<char, 32> address;
  std::snprintf(address.data(), address.size(), "0x%lx",
                static_cast<unsigned long>(address_in_file(code)));
  // "kernels/reduce/reduce.cuh:30\nkernels/softmax_cuda.cu:41 (discriminator 2)\n"
  const std::string lines =
      output_of("addr2line -i -e '" + program() + "' " + address.data() + " 2>/dev/null");
  std::string text;
  for (std::size_t begin = 0, end; (end = lines.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    std::string line = lines.substr(begin, end - begin);
    line = line.substr(line.rfind('/') + 1);
    line = line.substr(0, line.find(' '));
    text += (text.empty() ? "" : ", inlined into ") + line;
  }
  return text.empty() ? std::string("code at ") + address.data() : text;
}

}  // namespace ringrad::sim
