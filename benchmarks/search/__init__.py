"""What a search does before the GPU: how many candidates a core ranks and drafts in a second."""
