// The bundled page as bytes of the command: the build runs bundle.py first and names the folder of its output.
        .section .rodata
        .macro  page_part name file
        .globl  \name
        .hidden \name
        .globl  \name\()_end
        .hidden \name\()_end
\name:
        .incbin "\file"
\name\()_end:
        .endm

        page_part cuheap_page_head "head.html"
        page_part cuheap_page_middle "middle.html"
        page_part cuheap_page_tail "tail.html"

#if defined(__linux__) && defined(__ELF__)
        .section .note.GNU-stack,"",%progbits
#endif
