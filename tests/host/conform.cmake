# The contract suite: its own test program, and providers to judge. One of them shows every symbol.
outrider_provider(face_mock SOURCES conform_face_provider.cpp DEPS outrider_abi outrider_base)
add_library(provider_face_leaky MODULE conform_face_provider.cpp conform_extra_symbol.c)
target_link_libraries(provider_face_leaky PRIVATE outrider_abi outrider_base outrider_flags)
target_link_options(provider_face_leaky PRIVATE -Wl,--exclude-libs,ALL)
set_target_properties(provider_face_leaky PROPERTIES PREFIX "")
# Apart from the real ones: whoever tries every provider of lib must not meet them.
set_target_properties(provider_face_mock provider_face_leaky PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/test)
outrider_test(conform SOURCES conform_test.cpp conform_child_test.cpp
  DEPS outrider_host outrider_abi outrider_base)
add_dependencies(test_conform provider_fake not_a_provider provider_face_mock provider_face_leaky)
