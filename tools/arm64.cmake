# Debian's cross compiler and emulator for 64-bit Arm (tools/setup --arm64, tools/test_arm64).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)

# Headers that are the same on all machines, without this machine's own around them.
set(headers ${CMAKE_BINARY_DIR}/headers_of_all_machines)
file(MAKE_DIRECTORY ${headers})
foreach(header asio asio.hpp CLI gmock gtest jerror.h jmorecfg.h jpeglib.h libpng16 nlohmann openssl png.h pngconf.h pnglibconf.h
    zconf.h zip.h zlib.h)
  file(CREATE_LINK /usr/include/${header} ${headers}/${header} SYMBOLIC)
endforeach()
list(APPEND CMAKE_INCLUDE_PATH ${headers})
